package renewer

import (
	"context"
	"time"
)

const (
	// Leases that come due this close together share a heartbeat: as long as is needed
	// to gather a good batch, within these bounds and a sixty-fourth of an interval.
	gatherLeast = 3 * time.Millisecond
	gatherMost  = 50 * time.Millisecond
	// So many that what it costs to wake up, to send and to receive is little beside the rest.
	batchGood = 300
	// The most leases in one heartbeat, as long as the store keeps up: a server answers
	// nobody else while it reads what has arrived on one connection, so all of it is to
	// take a millisecond or so. When more are due the next follows after this time.
	batchMost = 400
	fullGap   = 1500 * time.Microsecond
	// A heartbeat of fewer leases than this takes others along that would come due within
	// a quarter of an interval: what it costs to send and to receive is then shared by
	// more. Each keeps its rhythm, so they come due together again. Not for a TTL after a
	// heartbeat has failed, so that a lease that the store can't answer for does not take
	// others along again and again; for so long heartbeats gather for the least time, too.
	batchLeast = 300
	// Up to this many heartbeats of a lane are under way at once without further ado.
	// When the store hangs they all wait; more then start at intervals of an eighth of
	// RequestTimeout, each with everything that has come due, so that no lease waits
	// for another's answer, and no more than these plus about eight ever wait together.
	flightsAtOnce = 8
)

// flight is one heartbeat under way.
type flight struct {
	lane   *lane
	sent   instant // before it was queued: where the deadlines that it earns are counted from
	lag    time.Duration
	leases []*Lease
	holds  []Hold
}

// sendDue is a step of the heartbeats' loop. It sends one heartbeat if one is due, and never waits
// for an answer.
func (k *Keeper) sendDue() (next instant) {
	k.mu.Lock()
	f, next := k.gather(k.clock.Now())
	k.mu.Unlock()
	if f != nil {
		k.goroutines.run(func() { k.fly(f) })
	}
	return next
}

// gather takes what is due out of the first lane that may send, or
// tells when to look again. Under k.mu.
func (k *Keeper) gather(now instant) (f *flight, next instant) {
	next = never
	for _, lane := range k.lanes {
		due := k.departure(lane, now)
		if due <= now {
			return k.board(lane, now), now
		}
		next = min(next, due)
	}
	return nil, next
}

// departure is when a lane's next heartbeat may be sent. Under k.mu.
func (k *Keeper) departure(lane *lane, now instant) instant {
	due := lane.beats.First()
	if due <= now { // the gap may put it off
		due = lane.sent.Add(k.flightGap(lane))
	}
	return due
}

// board makes a flight of what is due in a lane. Under k.mu.
func (k *Keeper) board(lane *lane, now instant) *flight {
	most := batchMost
	if lane.flights >= flightsAtOnce {
		most = len(k.leases)
	}
	f := k.newFlight()
	f.lane, f.sent, f.lag = lane, now, now.Sub(lane.beats.First())
	add := func(l *Lease) {
		f.leases = append(f.leases, l)
		f.holds = append(f.holds, l.hold())
	}
	lane.beats.Take(now, most, add)
	if now >= lane.calm {
		lane.beats.Take(now.Add(k.cfg.Heartbeat/4), batchLeast-len(f.leases), add)
		lane.pace(len(f.leases))
	}
	lane.flights++
	lane.sent = now
	lane.full = len(f.leases) == batchMost
	return f
}

// newFlight takes a flight that has landed, for its slices, or makes one. Under k.mu.
func (k *Keeper) newFlight() *flight {
	last := len(k.landed) - 1
	if last < 0 {
		return new(flight)
	}
	f := k.landed[last]
	k.landed = k.landed[:last]
	return f
}

// recycle keeps a flight that has landed for the next. Under k.mu.
func (k *Keeper) recycle(f *flight) {
	// the latter was needed in a crowd only
	if len(k.landed) == flightsAtOnce || cap(f.leases) > 2*batchMost {
		return
	}
	clear(f.leases) // not to keep leases alive
	clear(f.holds)
	f.leases, f.holds = f.leases[:0], f.holds[:0]
	k.landed = append(k.landed, f)
}

// flightGap is the time that must pass between two heartbeats of a lane. Under k.mu.
func (k *Keeper) flightGap(lane *lane) time.Duration {
	if lane.flights >= flightsAtOnce {
		return k.cfg.RequestTimeout / 8
	}
	if lane.full {
		return min(fullGap, lane.gap)
	}
	return lane.gap
}

// fly carries out one heartbeat.
func (k *Keeper) fly(f *flight) {
	ctx := k.request(context.Background())
	if k.observer != nil {
		ctx = k.observer.RenewStart(ctx, RenewStart{Leases: len(f.leases), Contexts: f.contexts})
	}
	k.land(ctx, f, k.store.Renew(ctx, f.holds))
}

// contexts are those of the leases.
func (f *flight) contexts(yield func(context.Context) bool) {
	for _, l := range f.leases {
		if !yield(l.seen()) {
			return
		}
	}
}

// land books a heartbeat's answers.
func (k *Keeper) land(ctx context.Context, f *flight, answers []Answer) {
	r := Renewed{Leases: len(f.leases), Lag: f.lag}
	var news losses
	var misses []miss
	k.mu.Lock()
	now := k.clock.Now()
	f.lane.flights--
	if f.lane.flights == flightsAtOnce-1 { // the next need not wait so long any more
		k.beatLoop.WakeBy(now)
	}
	for i, l := range f.leases {
		a := answerTo(answers, i, len(f.leases), brokenAnswer)
		switch a.Status {
		case StatusHeld:
			r.OK++
		case StatusTaken, StatusGone:
			r.Gone++
		default:
			a.Err = orUnexplained(a.Err)
			r.Failed++
			if r.Err == nil {
				r.Err = a.Err
			}
		}
		if l.state != held {
			continue
		}
		lag := f.sent.Sub(l.due)
		k.book(l, a, f.sent.Add(-max(0, a.Age)), now, &news)
		if k.observer != nil && l.state == held &&
			(a.Status == StatusUnknown || lag > k.cfg.RequestTimeout) {
			misses = append(misses, miss{l.seen(), Missed{
				Name: l.name, Operation: l.label.operation, Fence: l.fence, Lag: max(0, lag),
				Err:  a.Err,
				Left: max(0, instant(l.until.Load()).Sub(now)),
			}})
		}
	}
	k.outages.book(int(f.lane.number-1), f.sent, r.OK+r.Gone > 0 || isAnswer(StatusUnknown, r.Err))
	if r.Failed > 0 {
		f.lane.trouble(now.Add(k.cfg.TTL))
	}
	r.Took = now.Sub(f.sent)
	k.recycle(f)
	k.mu.Unlock()
	news.deliver(k)
	if k.observer != nil {
		for _, m := range misses {
			k.observer.Missed(m.ctx, m.event)
		}
		k.observer.Renewed(ctx, r)
	}
}

// miss is what an observer will hear of one lease of a heartbeat.
type miss struct {
	ctx   context.Context //nolint:containedctx // the lease's, for the observer
	event Missed
}

// book books one answer to a heartbeat sent at an instant. Under k.mu.
func (k *Keeper) book(l *Lease, a Answer, sent, now instant, news *losses) {
	switch {
	case a.Status == StatusTaken || a.Status == StatusGone:
		k.lose(l, ReasonTaken, now, news)
	case now >= instant(l.until.Load()):
		// Confirmed or not, it comes too late: belief has ended, and must not begin again.
		k.end(l, now, news)
	case a.Status == StatusHeld:
		if l.rare != nil {
			l.rare.lastErr = nil
		}
		l.renewals++
		l.deadline = max(l.deadline, sent.Add(k.validity)) // answers may overtake each other
		l.setUntil()
		// The next heartbeat keeps the rhythm, unless this one came
		// so late that the next would follow at once.
		l.due = l.due.Add(k.cfg.Heartbeat)
		if least := sent.Add(k.cfg.Heartbeat / 2); l.due < least {
			l.due = least
		}
		k.plan(l, l.due)
	default:
		// Nobody knows. The deadline stays as it was; what is left until then is for trying again.
		l.withRare().lastErr = a.Err
		pause := k.cfg.retryPause()
		again := now.Add(pause/2 + jitter(pause/2))
		k.plan(l, again)
	}
}
