package renewer

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/lease"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// lookAround is how often the end loop reads the clock although nothing is about to end: a machine
// that was suspended has lost that time without any timer having run.
const lookAround = time.Second

// endDue is a step of the end loop: it ends what is due. It asks neither the store nor an observer
// whether to: they hear of it afterwards.
func (k *Keeper) endDue() (next instant) {
	var news losses
	k.mu.Lock()
	now := k.clock.Now()
	outages := k.tendOutages(now)
	for c, due := k.questions.Due(now); due; c, due = k.questions.Due(now) {
		k.questions.Remove(c) // the store has not answered in time
		news.after = append(news.after, func() { c.Cancel(errNoAnswer) })
	}
	k.books.EndDue(now, func(l *Lease) { k.attendTo(l, now, &news) })
	next = min(outages, k.questions.First(), k.books.FirstBound())
	if at := k.listenAt(); at > now {
		next = min(next, at)
	} else {
		k.goroutines.run(k.listen)
	}
	k.mu.Unlock()
	news.deliver(k)
	if next == never {
		return never
	}
	return min(next, now.Add(lookAround))
}

// nextDue is when the end loop is to attend to a lease. Under k.mu.
func (l *Lease) nextDue() instant { return l.belief.NextDue(&l.k.rules) }

// attendTo does what is due for a lease: it loses it, or notes that observers are to be told of it.
// Under k.mu.
func (k *Keeper) attendTo(l *Lease, now instant, news *losses) {
	if l.belief.IsOver(now) {
		k.expire(l, now, news)
		return
	}
	e := StillRuns{
		Name: l.Name(), Operation: l.label.operation, Fence: l.belief.Fence, Waiting: k.behind(l),
		Lost: l.belief.Why(),
	}
	e.Held, e.Overrun = l.belief.Times(now)
	l.belief.Warned(&k.rules, now)
	if l.op.Begun() { // else its caller was handed it a moment ago, and has not begun
		news.still = append(news.still, stillRuns{l.op.Seen(), e})
	}
}

// stillRuns is what an observer will hear of an operation.
type stillRuns struct {
	ctx   context.Context //nolint:containedctx // the lease's, for the observer
	event StillRuns
}

// expire loses a lease whose belief has ended by the clock. Under k.mu.
func (k *Keeper) expire(l *Lease, now instant, news *losses) {
	k.lost(l, l.belief.Expire(&k.rules, now), news)
}

// lose ends a held lease and collects the news, which the caller must
// deliver when it has given k.mu back.
func (k *Keeper) lose(l *Lease, reason Reason, now instant, news *losses) {
	k.lost(l, l.belief.Lose(lease.Reason(reason), now), news)
}

// lost is the rest of a loss. Under k.mu.
func (k *Keeper) lost(l *Lease, loss lease.Loss, news *losses) {
	l.belief.Tell(&LostError{
		Name: l.name, Reason: Reason(loss.Reason), Fence: l.belief.Fence, Left: loss.Left,
		Err: loss.Err, maxHold: loss.MaxHold,
	})
	k.heartbeats.Unplan(l)
	k.books.Bound(l) // it may be told of
	k.ends.WakeBy(l.nextDue())
	if l.op.Begun() { // else it was handed over a moment ago, and its new holder will see
		news.leases = append(news.leases, l)
	}
	if left := k.desk.Leave(l.key(), l); left.Stop != nil {
		news.after = append(news.after, left.Stop)
	}
}

// loseTaken is lose for a lease of which the store has answered that it is not ours any more, or
// that it was broken.
func (k *Keeper) loseTaken(l *Lease, a store.Answer, now instant, news *losses) {
	k.lose(l, reasonOf(a), now, news)
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

// losses are leases just lost, whose operations have not been told yet.
type losses struct {
	leases []*Lease
	after  []func()
	still  []stillRuns // of operations that go on
}

// deliver tells the operations, all of them before any observer.
func (n *losses) deliver(k *Keeper) {
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
		k.hearers.Lost(l.op.Seen(), e)
	}
	for _, s := range n.still {
		k.hearers.StillRuns(s.ctx, s.event)
	}
}

// watchCaller starts the grace of [Config.CancelGrace] when the caller's context ends.
func (k *Keeper) watchCaller(caller context.Context, l *Lease) {
	unwatch := context.AfterFunc(caller, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if !l.belief.Held() {
			return
		}
		l.belief.LimitTo(&k.rules, k.clock.Now().Add(k.cfg.CancelGrace),
			lease.Reason(ReasonAbandoned))
		k.books.Bound(l)
		k.ends.WakeBy(l.belief.Until())
	})
	operation := l.op.Context()
	k.mu.Lock()
	operation.Unwatch = unwatch
	k.mu.Unlock()
}

// OnLoss has f called once, when the lease is lost or if it is already, though its context has
// ended before; never after a release. f must not block. stop takes it back.
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
