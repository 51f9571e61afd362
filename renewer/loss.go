package renewer

import (
	"context"
	"math"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/lease"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// lookAround is how often the end loop reads the clock although nothing is
// about to end: a machine that was suspended has lost that time without any
// timer having run.
const lookAround = time.Second

// losses are what the engine finds at an instant, under k.mu: leases just lost,
// whose operations have not been told yet. deliver tells them, once k.mu is
// given back.
type losses struct {
	k   *Keeper
	now instant

	leases []*Lease
	after  []func()
	still  []stillRuns // of operations that go on
}

// endDue is a step of the end loop: it ends what is due. It asks neither the
// store nor an observer whether to: they hear of it afterwards.
func (k *Keeper) endDue() (next instant) {
	news := losses{k: k}
	k.mu.Lock()
	now := k.clock.Now()
	news.now = now
	outages := k.tendOutages(now)
	k.leases.Take(now, math.MaxInt, news.attendTo)
	next = min(outages, k.leases.First())
	if at := k.looks.listenAt(); at > now {
		next = min(next, at)
	} else {
		k.goroutines.run(k.looks.listen)
	}
	k.mu.Unlock()
	news.deliver()
	if next == never {
		return never
	}
	return min(next, now.Add(lookAround))
}

// attendBy has the end loop attend to a lease when something is due, or before;
// and puts it on the books, unless it is asked for. A heartbeat moves the end
// of a lease on, but not its place here: so a lease is looked at in vain once
// in a TTL. What is not due soon is entered at a 256th of the TTL, with others:
// else very many would wake the loop, each at an instant of its own. Under
// k.mu.
func (k *Keeper) attendBy(l *Lease, now instant) {
	at := min(l.belief.NextDue(&k.rules), now.Add(k.cfg.TTL))
	if shared := at - at%instant(k.cfg.TTL/256); shared > now {
		at = shared
	}
	k.leases.Set(l, at)
	k.ends.WakeBy(at)
}

// attendTo does what is due for a lease, if anything is: it ends a question,
// loses a lease, or notes that observers are to be told of one. Under k.mu.
func (n *losses) attendTo(l *Lease) {
	k, now := n.k, n.now
	switch {
	case l.belief.NextDue(&k.rules) > now:
	case l.belief.Asking():
		question := l.op.Made()
		n.after = append(n.after, func() { question.Cancel(errNoAnswer) })
		return // it is asked for no more
	case l.belief.IsOver(now):
		n.expire(l)
	default:
		n.noteRuns(l)
	}
	k.attendBy(l, now)
}

// noteRuns notes that observers are to hear of an operation that still runs.
// Under k.mu.
func (n *losses) noteRuns(l *Lease) {
	e := StillRuns{
		Name: l.Name(), Operation: l.label.operation, Fence: l.belief.Fence, Waiting: n.k.behind(l),
		Lost: l.belief.Why(),
	}
	e.Held, e.Overrun = l.belief.Times(n.now)
	l.belief.Warned(&n.k.rules, n.now)
	if l.op.Begun() { // else its caller was handed it a moment ago, and has not begun
		n.still = append(n.still, stillRuns{l.op.Seen(), e})
	}
}

// stillRuns is what an observer will hear of an operation.
type stillRuns struct {
	ctx   context.Context //nolint:containedctx // the lease's, for the observer
	event StillRuns
}

// expire loses a lease whose belief has ended by the clock. Under k.mu.
func (n *losses) expire(l *Lease) {
	n.lost(l, l.belief.Expire(&n.k.rules, n.now))
}

// lose ends a held lease before its operation does. Under k.mu.
func (n *losses) lose(l *Lease, reason Reason) {
	n.lost(l, l.belief.Lose(lease.Reason(reason), n.now))
}

// lost is the rest of a loss. Under k.mu.
func (n *losses) lost(l *Lease, loss lease.Loss) {
	k := n.k
	l.belief.Tell(&LostError{
		Name: l.name, Reason: Reason(loss.Reason), Fence: l.belief.Fence, Left: loss.Left,
		Err: loss.Err, maxHold: loss.MaxHold,
	})
	k.heartbeats.Unplan(l)
	k.attendBy(l, n.now) // it may be told of
	if l.op.Begun() {    // else it was handed over a moment ago, and its new holder will see
		n.leases = append(n.leases, l)
	}
	if left := k.desk.Leave(l.key(), l); left.Stop != nil {
		n.after = append(n.after, left.Stop)
	}
}

// loseTaken is lose for a lease of which the store has answered that it is not
// ours any more, or that it was broken.
func (n *losses) loseTaken(l *Lease, a store.Answer) {
	n.lose(l, reasonOf(a))
	l.belief.Why().found(a)
	if a.Broken != nil && a.Broken.Force {
		l.belief.NoNotice()
	}
}

// found notes what the store has found.
func (e *LostError) found(a store.Answer) {
	switch {
	case a.Broken != nil:
		e.By, e.Why = a.Broken.By, a.Broken.Why
		if e.forced = a.Broken.Force; e.forced {
			e.Left = 0
		}
	case a.Status == store.StatusBroken: // by whom is not known any more
	case a.Status == store.StatusGone:
		e.Found = foundDeleted
	case a.Foreign:
		e.Found = foundOverwritten
	default:
		e.Found = foundOwner
		if a.Holder != nil {
			e.Holder = *a.Holder
		}
	}
}

// deliver tells the operations, all of them before any observer.
func (n *losses) deliver() {
	for _, l := range n.leases {
		l.op.End(l.belief.Why())
		l.belief.Losing()
	}
	for _, f := range n.after {
		f()
	}
	for _, l := range n.leases {
		e := Lost{
			Name: l.name, Operation: l.label.operation, Fence: l.belief.Fence, Err: l.belief.Why(),
		}
		e.Held, _ = l.belief.Times(0) // until the loss
		n.k.hearers.Lost(l.op.Seen(), e)
	}
	for _, s := range n.still {
		n.k.hearers.StillRuns(s.ctx, s.event)
	}
}

// watchCaller starts the grace of [Config.CancelGrace] when the caller's
// context ends.
func (k *Keeper) watchCaller(caller context.Context, l *Lease) {
	unwatch := context.AfterFunc(caller, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if !l.belief.Held() {
			return
		}
		now := k.clock.Now()
		l.belief.LimitTo(&k.rules, now.Add(k.cfg.CancelGrace), lease.Reason(ReasonAbandoned))
		k.attendBy(l, now)
	})
	operation := l.op.Context()
	k.mu.Lock()
	operation.Unwatch = unwatch
	k.mu.Unlock()
}

// OnLoss has f called once, when the lease is lost or if it is already, though
// its context has ended before; never after a release. f must not block. stop
// takes it back.
func (l *Lease) OnLoss(f func()) (stop func()) {
	k := l.k
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case l.belief.Held():
		l.belief.OnLoss(&f)
		return func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			l.belief.NotOnLoss(&f)
		}
	case l.belief.Lost():
		go f() // not under the lock
	}
	return func() {}
}
