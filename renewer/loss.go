package renewer

import (
	"context"
	"math"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/lease"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// lookAround is how often the end loop reads the clock although nothing is
// about to end: a machine that was suspended has lost that time without any
// timer having run.
const lookAround = time.Second

// losses are what the engine finds in the books at an instant: leases just
// lost, whose operations have not been told yet. deliver tells them, once the
// books are given back.
type losses struct {
	b   *books
	now instant

	leases []*Lease
	after  []func()
	still  []stillRuns // of operations that go on
}

// endDue is a step of the end loop: it ends what is due. It asks neither the
// store nor an observer whether to: they hear of it afterwards.
func (k *Keeper) endDue() (next instant) {
	b := k.lock()
	now := k.clock.Now()
	news := losses{b: b, now: now}
	outages := b.tendOutages(now)
	b.leases.Take(now, math.MaxInt, news.attendTo)
	next = min(outages, b.leases.First())
	if at := b.listenAt(); at > now {
		next = min(next, at)
	} else {
		k.goroutines.run(k.listen)
	}
	b.Unlock()
	news.deliver()
	if next == never {
		return never
	}
	return min(next, now.Add(lookAround))
}

// attendTo does what is due for a lease, if anything is: it ends a question,
// loses a lease, or notes that observers are to be told of one.
func (n *losses) attendTo(l *Lease) {
	b, now := n.b, n.now
	switch {
	case l.belief.NextDue(&b.k.rules) > now:
	case l.belief.Asking():
		question := l.op.Made()
		n.after = append(n.after, func() { question.Cancel(errNoAnswer) })
		return // it is asked for no more
	case l.belief.IsOver(now):
		n.expire(l)
	default:
		n.noteRuns(l)
	}
	b.attendBy(l, now)
}

// noteRuns notes that observers are to hear of an operation that still runs.
func (n *losses) noteRuns(l *Lease) {
	e := StillRuns{
		Name: l.Name(), Operation: l.label.operation, Fence: l.belief.Fence, Waiting: n.b.behind(l),
		Lost: l.belief.Why(),
	}
	e.Held, e.Overrun = l.belief.Times(n.now)
	l.belief.Warned(&n.b.k.rules, n.now)
	if l.op.Begun() { // else its caller was handed it a moment ago, and has not begun
		n.still = append(n.still, stillRuns{l.op.Seen(), e})
	}
}

// stillRuns is what an observer will hear of an operation.
type stillRuns struct {
	ctx   context.Context //nolint:containedctx // the lease's, for the observer
	event StillRuns
}

// expire loses a lease whose belief has ended by the clock.
func (n *losses) expire(l *Lease) {
	n.lost(l, l.belief.Expire(&n.b.k.rules, n.now))
}

// lose ends a held lease before its operation does.
func (n *losses) lose(l *Lease, reason Reason) {
	n.lost(l, l.belief.Lose(lease.Reason(reason), n.now))
}

// lost is the rest of a loss.
func (n *losses) lost(l *Lease, loss lease.Loss) {
	l.belief.Tell(&LostError{
		Name: l.name, Reason: Reason(loss.Reason), Fence: l.belief.Fence, Left: loss.Left,
		Err: loss.Err, maxHold: loss.MaxHold,
	})
	n.b.heartbeats.Unplan(l)
	n.b.attendBy(l, n.now) // it may be told of
	if l.op.Begun() {      // else it was handed over a moment ago, and its new holder will see
		n.leases = append(n.leases, l)
	}
	if left := n.b.k.desk.Leave(l.key(), l); left.Stop != nil {
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
		n.b.k.hearers.Lost(l.op.Seen(), e)
	}
	for _, s := range n.still {
		n.b.k.hearers.StillRuns(s.ctx, s.event)
	}
}

// watchCaller starts the grace of [Config.CancelGrace] when the caller's
// context ends.
func (k *Keeper) watchCaller(caller context.Context, l *Lease) {
	unwatch := context.AfterFunc(caller, func() {
		b := k.lock()
		defer b.Unlock()
		if !l.belief.Held() {
			return
		}
		now := k.clock.Now()
		l.belief.LimitTo(&k.rules, now.Add(k.cfg.CancelGrace), lease.Reason(ReasonAbandoned))
		b.attendBy(l, now)
	})
	operation := l.op.Context()
	b := k.lock()
	operation.Unwatch = unwatch
	b.Unlock()
}

// OnLoss has f called once, when the lease is lost or if it is already, though
// its context has ended before; never after a release. f must not block. stop
// takes it back.
func (l *Lease) OnLoss(f func()) (stop func()) {
	defer l.k.lock().Unlock()
	switch {
	case l.belief.Held():
		l.belief.OnLoss(&f)
		return func() {
			defer l.k.lock().Unlock()
			l.belief.NotOnLoss(&f)
		}
	case l.belief.Lost():
		go f() // not under the lock
	}
	return func() {}
}

// breaker is the part of a [store.Inspector] that the engine uses.
type breaker interface {
	Break(ctx context.Context, b store.Breaking) store.Answer
	OnBreak(holder store.Holder, look func(name string, limit bool)) (stop func())
}

// breakWatch is how a keeper hears that a lease of its own may have been
// broken. It listens from when a lease is a second old, or about to have its
// first heartbeat, or has none: for one that is over sooner that would cost
// more than it brings.
type breakWatch struct {
	listens bool   // or the store tells nobody
	stop    func() // nil unless the store tells
	limits  instant
	young   instant
}

const (
	// listenAfter is how old a lease is when its keeper begins to listen.
	listenAfter = time.Second
	// lookPause bounds how often a lease is looked at upon messages, which any
	// user of the server who may publish can send.
	lookPause = 100 * time.Millisecond
	// limitPause bounds how often all leases are looked through, for those of a
	// limit or those that have had no heartbeat. What comes sooner waits for
	// the heartbeat.
	limitPause = 10 * time.Millisecond
)

// listenAt is when the keeper is to begin to listen, for the oldest of its
// leases.
func (b *books) listenAt() instant {
	at := never
	if b.breakWatch.listens {
		return at
	}
	for l := range b.leases.All() { // few have been there when one is a second old
		if l.belief.Held() {
			at = min(at, l.belief.Since().Add(listenAfter))
		}
	}
	return at
}

// listen has the store tell of leases that may have been broken, once.
func (k *Keeper) listen() {
	s, ok := k.store.(breaker)
	b := k.lock()
	first := !b.breakWatch.listens && b.phase < phaseFree
	b.breakWatch.listens = true
	b.Unlock()
	if !first || !ok {
		return
	}
	stop := s.OnBreak(k.self, k.look)
	b = k.lock()
	over := b.phase >= phaseFree
	if !over {
		b.breakWatch.stop = stop
	}
	b.Unlock()
	if over {
		stop()
	}
}

// deaf ends what listen has begun.
func (k *Keeper) deaf() {
	b := k.lock()
	stop := b.breakWatch.stop
	b.breakWatch.stop = nil
	b.Unlock()
	if stop != nil {
		stop()
	}
}

// look renews the leases of a name now: the answer says if they were broken.
// Without a name it renews those that have had no heartbeat yet: they may have
// been broken before the store told.
func (k *Keeper) look(name string, limit bool) {
	b := k.lock()
	defer b.Unlock()
	now := k.clock.Now()
	if name == "" {
		b.lookAtNew(now)
		return
	}
	if !limit {
		key := contract.Name{Text: name}
		k.desk.Nudge(key)
		if l := k.desk.Last(key).Has; l != nil {
			b.lookAt(l, now)
		}
		return
	}
	if now < b.breakWatch.limits.Add(limitPause) {
		return
	}
	b.breakWatch.limits = now
	for l := range b.leases.All() {
		if l.name == name && l.label.limited {
			b.lookAt(l, now)
		}
	}
}

// lookAtNew has those leases renewed now that have had no heartbeat.
func (b *books) lookAtNew(now instant) {
	if now < b.breakWatch.young.Add(limitPause) {
		return
	}
	b.breakWatch.young = now
	for l := range b.leases.All() {
		if l.belief.Renewals() == 0 && b.heartbeats.Planned(l) {
			b.lookAt(l, now)
		}
	}
}

// lookAt has a lease renewed now.
func (b *books) lookAt(l *Lease, now instant) {
	if !l.belief.Held() || b.phase >= phaseFree {
		return
	}
	at, ok := l.belief.Look(now, lookPause)
	if !ok {
		return
	}
	if l.belief.IsManual() {
		b.k.goroutines.run(func() { b.k.askManual(l) })
		return
	}
	b.plan(l, min(at, max(l.belief.Due, now)))
}

// askManual asks whether a lease without a heartbeat was broken. A renewal
// shortens no TTL.
func (k *Keeper) askManual(l *Lease) {
	h := l.hold()
	h.TTL = time.Millisecond
	a := asking.AnswerTo(k.store.Renew(k.requests.Limit(), []store.Hold{h}), 0, 1)
	b := k.lock()
	news := losses{b: b, now: k.clock.Now()}
	over := a.Status != store.StatusHeld && a.Status != store.StatusUnknown
	if over && l.belief.Held() {
		news.loseTaken(l, a)
	}
	b.Unlock()
	news.deliver()
}

// reasonOf is why a lease is lost, by the answer that it is not the owner's any
// more.
func reasonOf(a store.Answer) Reason {
	switch {
	case a.Broken != nil && a.Broken.Replaced:
		return ReasonReplaced
	case a.Broken != nil || a.Status == store.StatusBroken:
		return ReasonBroken
	default:
		return ReasonTaken
	}
}
