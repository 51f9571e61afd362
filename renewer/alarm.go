package renewer

import "time"

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
)

// changed is told by the store that somebody else has written to a name, or to any if it is "".
func (k *Keeper) changed(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.atMost()
	if name != "" {
		if l := k.lines[name]; l != nil {
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
	l.lane = k.alarms
	l.lane.beats.set(l, l.due)
	k.beatWaker.wakeBy(l.due)
}

// alarmAgain repeats an alarm that came while no heartbeat was planned. Under k.mu.
func (k *Keeper) alarmAgain(l *Lease, now instant) {
	if l.alarmed {
		l.alarmed = false
		k.alarm(l, now)
	}
}
