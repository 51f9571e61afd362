package renewer

import (
	"context"
	"time"
)

const (
	// firstLook is when a lease gets its first heartbeat if the store guards what is renewed: an operation that is over by then costs
	// none. At most an eighth of the interval.
	firstLook = 20 * time.Millisecond
	// alarmGap is the shortest time between heartbeats that come before they are due: so short that the news is fresh, and so long
	// that those of many leases share one.
	alarmGap = time.Millisecond
	// calmFor is the shortest time between a lease's last confirmed request and a heartbeat by an alarm, so that whoever writes to
	// its key over and over can't make many. At most a sixty-fourth of the interval.
	calmFor = 10 * time.Millisecond
	// deafFor is how long the store is not listened to when it says so often that what is ours has changed that it is no help: a server
	// that has no room to remember all keys that it is to watch tells of one whenever it forgets it.
	deafFor = time.Minute
	// guardMost is for how many leases of a keeper the store is listened to. A Redis server watches a million keys unless told otherwise,
	// for all of its clients together, and a renewal of one that is watched costs it a fifth more.
	guardMost = 200_000
)

// hearing is what the store's news was worth lately. Guarded by Keeper.mu.
type hearing struct {
	ctx       context.Context //nolint:containedctx // for what the store asks in order to hear
	since     instant
	wrong     int     // alarms since then at which the lease was found to be ours
	deafUntil instant // 0 while we listen
}

// changed is told by the store that somebody else has written to a name, or to any if it is "".
func (k *Keeper) changed(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.atMost()
	if name != "" {
		if l := k.lines[name]; l != nil {
			l.suspect = true
			k.alarm(l, now)
		}
		return
	}
	if k.alarmed > now { // a round is about to begin
		return
	}
	k.alarmed = max(now, k.alarmed.add(k.cfg.Heartbeat/64)) // a connection that comes and goes says this each time
	for _, l := range k.leases {
		k.alarm(l, k.alarmed)
	}
}

// alarm has a lease's next heartbeat sent at an instant, or as soon as may be afterwards. Under k.mu.
func (k *Keeper) alarm(l *Lease, at instant) {
	if l.state != held {
		return
	}
	if l.place[beats] == nowhere { // one is under way, and may have been answered before the change; or there are none at all
		l.alarmed = true
		return
	}
	calm := l.deadline.add(-k.validity).add(min(calmFor, k.cfg.Heartbeat/64))
	l.due = min(l.due, max(at, calm))
	k.unplan(l)
	l.lane = k.alarms.number
	k.alarms.beats.set(l, l.due)
	k.beatWaker.wakeBy(l.due)
}

// alarmAgain repeats an alarm that came while no heartbeat was planned. Under k.mu.
func (k *Keeper) alarmAgain(l *Lease, now instant) {
	if l.alarmed {
		l.alarmed = false
		k.alarm(l, now)
	}
}

// falseAlarm counts one, and has the store not listened to for a while if there are too many: more in an interval than one for every
// hundred leases, and a hundred. Under k.mu.
func (k *Keeper) falseAlarm(now instant) {
	h := &k.heard
	if now.sub(h.since) > k.cfg.Heartbeat {
		h.since, h.wrong = now, 0
	}
	h.wrong++
	if h.wrong > 100+len(k.leases)/100 {
		k.deafen(now)
	}
}

// deafen stops listening to the store for a while. Under k.mu.
func (k *Keeper) deafen(now instant) {
	k.unguard()
	k.unguard, k.heard.deafUntil = nothing, now.add(deafFor)
}

// listen listens to the store again when it is time. Under k.mu.
func (k *Keeper) listen(now instant) {
	if h := &k.heard; h.deafUntil != 0 && now >= h.deafUntil && len(k.leases) <= guardMost && !k.closing {
		h.deafUntil = 0
		k.unguard = k.guarding.Guard(k.heard.ctx, k.changed)
	}
}

// guarded tells whether changes to a lease will be told once it has been renewed. Under k.mu.
func (k *Keeper) guarded(now instant) bool {
	if k.guarding == nil || k.heard.deafUntil != 0 {
		return false
	}
	if len(k.leases) > guardMost {
		k.deafen(now)
		return false
	}
	return k.guarding.Guards()
}
