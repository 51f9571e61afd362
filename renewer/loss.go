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

// breaker is the part of a [store.Inspector] that the engine uses.
type breaker interface {
	Break(ctx context.Context, b store.Breaking) store.Answer
	OnBreak(holder store.Holder, look func(name string, limit bool)) (stop func())
}

// looks is how a keeper hears that a lease of its own may have been broken. It
// listens from when a lease is a second old, or about to have its first
// heartbeat, or has none: for one that is over sooner that would cost more than
// it brings. Guarded by Keeper.mu.
type looks struct {
	k       *Keeper
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
// leases. Under k.mu.
func (w *looks) listenAt() instant {
	k := w.k
	at := never
	if w.listens {
		return at
	}
	for l := range k.leases.All() { // few have been there when one is a second old
		if l.belief.Held() {
			at = min(at, l.belief.Since().Add(listenAfter))
		}
	}
	return at
}

// listen has the store tell of leases that may have been broken, once.
func (w *looks) listen() {
	k := w.k
	s, ok := k.store.(breaker)
	k.mu.Lock()
	first := !w.listens && k.shutdown.phase < phaseFree
	w.listens = true
	k.mu.Unlock()
	if !first || !ok {
		return
	}
	stop := s.OnBreak(k.self, w.look)
	k.mu.Lock()
	over := k.shutdown.phase >= phaseFree
	if !over {
		w.stop = stop
	}
	k.mu.Unlock()
	if over {
		stop()
	}
}

// deaf ends what listen has begun.
func (w *looks) deaf() {
	k := w.k
	k.mu.Lock()
	stop := w.stop
	w.stop = nil
	k.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// look renews the leases of a name now: the answer says if they were broken.
// Without a name it renews those that have had no heartbeat yet: they may have
// been broken before the store told.
func (w *looks) look(name string, limit bool) {
	k := w.k
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	if name == "" {
		w.lookAtNew(now)
		return
	}
	if !limit {
		key := contract.Name{Text: name}
		k.desk.Nudge(key)
		if l := k.desk.Last(key).Has; l != nil {
			w.lookAt(l, now)
		}
		return
	}
	if now < w.limits.Add(limitPause) {
		return
	}
	w.limits = now
	for l := range k.leases.All() {
		if l.name == name && l.label.limited {
			w.lookAt(l, now)
		}
	}
}

// lookAtNew has those leases renewed now that have had no heartbeat. Under
// k.mu.
func (w *looks) lookAtNew(now instant) {
	k := w.k
	if now < w.young.Add(limitPause) {
		return
	}
	w.young = now
	for l := range k.leases.All() {
		if l.belief.Renewals() == 0 && k.heartbeats.Planned(l) {
			w.lookAt(l, now)
		}
	}
}

// lookAt has a lease renewed now. Under k.mu.
func (w *looks) lookAt(l *Lease, now instant) {
	k := w.k
	if !l.belief.Held() || k.shutdown.phase >= phaseFree {
		return
	}
	at, ok := l.belief.Look(now, lookPause)
	if !ok {
		return
	}
	if l.belief.IsManual() {
		k.goroutines.run(func() { w.askManual(l) })
		return
	}
	k.plan(l, min(at, max(l.belief.Due, now)))
}

// askManual asks whether a lease without a heartbeat was broken. A renewal
// shortens no TTL.
func (w *looks) askManual(l *Lease) {
	k := w.k
	h := l.hold()
	h.TTL = time.Millisecond
	a := asking.AnswerTo(k.store.Renew(k.requests.Limit(), []store.Hold{h}), 0, 1)
	news := losses{k: k}
	k.mu.Lock()
	over := a.Status != store.StatusHeld && a.Status != store.StatusUnknown
	if over && l.belief.Held() {
		news.now = k.clock.Now()
		news.loseTaken(l, a)
	}
	k.mu.Unlock()
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
