package renewer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/beat"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// errLate is why a heartbeat was sent again of which nothing else is known.
var errLate = fmt.Errorf("the store has not answered within Config.RequestTimeout: %w",
	context.DeadlineExceeded)

// sendDue is a step of the heartbeats' loop. It sends one batch if one is due,
// and never waits for an answer, nor for an observer.
func (k *Keeper) sendDue() (next instant) {
	var told []*booking
	b := k.lock()
	now := k.clock.Recent()
	for batch, late := b.heartbeats.Late(now); late; batch, late = b.heartbeats.Late(now) {
		told = append(told, b.sendAgain(batch, now))
	}
	batch, next := b.heartbeats.Next(now)
	b.Unlock()
	if len(told) > 0 && k.observer != nil {
		k.goroutines.run(func() {
			for _, n := range told {
				n.tell()
			}
		})
	}
	if batch != nil {
		k.goroutines.run(func() { k.renew(batch) })
	}
	return next
}

// sendAgain plans the leases of a heartbeat that is late.
func (b *books) sendAgain(batch *beat.Batch[*Lease], now instant) *booking {
	b.k.outages.Failed(batch.Shard(), batch.Holds[0].Name, batch.Sent, errLate)
	n := b.booking(batch, now)
	n.renewed.Failed, n.renewed.Err = len(batch.Leases), errLate
	for _, l := range batch.Leases {
		if l.belief.Held() {
			l.belief.Missed(errLate)
			n.retry(l)
			n.miss(l, batch.Sent.Sub(l.belief.Due), errLate)
		}
	}
	return n
}

// renew carries out one heartbeat.
func (k *Keeper) renew(batch *beat.Batch[*Lease]) {
	k.listen()
	ctx := k.renewals.Limit()
	if k.observer != nil {
		ctx = k.observer.RenewStart(ctx, RenewStart{
			Leases: len(batch.Leases), Contexts: contexts(batch.Leases),
		})
		b := k.lock()
		batch.Context = ctx
		b.Unlock()
	}
	n := k.bookBatch(batch, k.store.Renew(ctx, batch.Holds))
	n.deliver()
	if k.observer != nil {
		n.tell()
	}
}

// bookBatch books a heartbeat's answers. It returns what is to be told.
func (k *Keeper) bookBatch(batch *beat.Batch[*Lease], answers []store.Answer) *booking {
	b := k.lock()
	defer b.Unlock()
	n := b.booking(batch, k.clock.Recent())
	r := &n.renewed
	for i, l := range batch.Leases {
		a := asking.AnswerTo(answers, i, len(batch.Leases))
		r.count(a)
		if !l.belief.Held() {
			continue
		}
		sent := batch.Sent.Add(-max(0, a.Age))
		if batch.Late {
			n.bookLate(l, a, sent)
			continue
		}
		if batch.Holds[i].Tells && a.Status == store.StatusHeld {
			l.belief.Told(batch.Holds[i].Callers)
		}
		lag := batch.Sent.Sub(l.belief.Due)
		n.book(l, a, sent)
		if a.Status == store.StatusUnknown || lag > k.cfg.RequestTimeout {
			n.miss(l, lag, a.Err)
		}
	}
	if r.OK+r.Gone > 0 || asking.IsAnswer(store.StatusUnknown, r.Err) {
		k.outages.Answered(batch.Shard())
	} else {
		k.outages.Failed(batch.Shard(), batch.Holds[0].Name, batch.Sent, r.Err)
	}
	b.heartbeats.Complete(batch, n.now, r.Failed > 0)
	return n
}

// count counts an answer.
func (r *Renewed) count(a store.Answer) {
	switch a.Status {
	case store.StatusHeld:
		r.OK++
	case store.StatusTaken, store.StatusGone, store.StatusBroken:
		r.Gone++
	default:
		r.Failed++
		if r.Err == nil {
			r.Err = a.Err
		}
	}
}

// booking books a heartbeat at an instant: when it is answered, or late. It has
// what is to be told then: the leases that were lost, and what an
// observer hears.
type booking struct {
	losses

	ctx     context.Context //nolint:containedctx // of RenewStart; nil if it has heard
	renewed Renewed
	misses  []miss
}

// miss is what an observer hears of one lease.
type miss struct {
	ctx   context.Context //nolint:containedctx // the lease's, for the observer
	event Missed
}

// booking begins one.
func (b *books) booking(batch *beat.Batch[*Lease], now instant) *booking {
	n := &booking{losses: losses{b: b, now: now}, ctx: batch.Context, renewed: Renewed{
		Leases: len(batch.Leases), Lag: batch.Lag, Took: now.Sub(batch.Sent),
	}}
	batch.Context = nil
	return n
}

// miss adds a lease, if it is still held.
func (n *booking) miss(l *Lease, lag time.Duration, err error) {
	if n.b.k.observer == nil || !l.belief.Held() {
		return
	}
	n.misses = append(n.misses, miss{l.op.Seen(), Missed{
		Name: l.name, Operation: l.label.operation, Fence: l.belief.Fence, Lag: max(0, lag),
		Err: err, Left: max(0, l.belief.Until().Sub(n.now)),
	}})
}

// tell tells the keeper's observer, without the lock.
func (n *booking) tell() {
	for _, m := range n.misses {
		n.b.k.observer.Missed(m.ctx, m.event)
	}
	if n.ctx != nil {
		n.b.k.observer.Renewed(n.ctx, n.renewed)
	}
}

// book books one answer to a heartbeat sent at an instant.
func (n *booking) book(l *Lease, a store.Answer, sent instant) {
	n.renewal(l, a, n.b.k.cfg.TTL, sent)
	switch {
	case !l.belief.Held():
	case a.Status == store.StatusHeld:
		n.planNext(l, sent)
	default:
		n.retry(l)
	}
}

// bookLate is book for a heartbeat that was sent again since. Its answer counts
// from its own sending, and the lease is planned again only if the next attempt
// has not been sent: that one will.
func (n *booking) bookLate(l *Lease, a store.Answer, sent instant) {
	if a.Status == store.StatusUnknown {
		l.belief.Explain(errLate, a.Err)
		return
	}
	if n.renewal(l, a, n.b.k.cfg.TTL, sent) && n.b.heartbeats.Planned(l) {
		n.planNext(l, sent)
	}
}

// planNext plans the heartbeat that follows one that was confirmed. It keeps
// the rhythm, unless that one came so late that the next would follow at once,
// or earlier than a batch takes those along that are due soon.
func (n *booking) planNext(l *Lease, sent instant) {
	rhythm := n.b.k.cfg.Heartbeat
	l.belief.Due = max(l.belief.Due.Add(rhythm), sent.Add(rhythm/2))
	l.belief.Due = min(l.belief.Due, sent.Add(rhythm+rhythm/4))
	n.b.plan(l, l.belief.Due)
}

// retry plans a heartbeat after one that failed, or is late.
func (n *booking) retry(l *Lease) {
	pause := n.b.k.cfg.retryPause()
	n.b.plan(l, n.now.Add(pause/2+timing.Jitter(pause/2)))
}

// renewal books the answer to a renewal for ttl that was sent at an instant. If
// it is unknown the deadline stays: what is left until then is for trying
// again. further reports whether it has moved on.
func (n *losses) renewal(
	l *Lease, a store.Answer, ttl time.Duration, sent instant,
) (further bool) {
	switch {
	case a.Status == store.StatusTaken || a.Status == store.StatusGone ||
		a.Status == store.StatusBroken:
		n.loseTaken(l, a)
	case n.now >= l.belief.Until():
		// Confirmed or not, it comes too late: belief has ended, and must not
		// begin again.
		n.expire(l)
	case a.Status == store.StatusHeld:
		return l.belief.Renewed(&n.b.k.rules, sent, ttl)
	default:
		l.belief.Missed(a.Err)
	}
	return false
}

// contexts are those of leases, for an observer.
func contexts(leases []*Lease) iter.Seq[context.Context] {
	return func(yield func(context.Context) bool) {
		for _, l := range leases {
			if !yield(l.op.Seen()) {
				return
			}
		}
	}
}

// Extend makes a lease with [Request].Manual last for d from now, less the
// clock drift and [Config.Margin], if it would not last longer anyway. It asks
// the store once, for [Config.RequestTimeout] at most.
//
// The error is a *[LostError] if the lease is lost; else an *[Error] of kind
// [ErrUnavailable] (it lasts as long as before at least), ctx's own error, or
// [ErrConfig] if d is too short, or the lease has a heartbeat or was released.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	k := l.k
	d = d.Truncate(time.Millisecond)
	if err := l.beginExtend(d); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, k.cfg.RequestTimeout)
	defer cancel()
	request := limited
	if k.observer != nil {
		request = k.observer.RenewStart(limited, RenewStart{
			Leases: 1, Contexts: contexts([]*Lease{l}),
		})
	}
	sent := k.clock.AtMost()
	h := l.hold()
	h.TTL = d
	a := asking.AnswerTo(k.store.Renew(request, []store.Hold{h}), 0, 1)
	lost := k.extended(l, a, sent.Add(-max(0, a.Age)), d)
	if k.observer != nil {
		r := Renewed{Leases: 1, Took: k.clock.AtMost().Sub(sent)}
		r.count(a)
		k.observer.Renewed(request, r)
	}
	switch {
	case lost != nil:
		return lost
	case a.Status == store.StatusHeld:
		return nil
	case ctx.Err() != nil:
		return &Error{
			Op: "extend", Name: l.Name(), Kind: ctx.Err(), Err: context.Cause(ctx),
			Attempts: 1,
		}
	default:
		return &Error{
			Op: "extend", Name: l.Name(), Kind: ErrUnavailable, Err: storeError{a.Err},
			Attempts: 1,
		}
	}
}

// beginExtend notes how long the store may hold the key from now on, whatever
// the answer; or it returns why the lease can't be extended.
func (l *Lease) beginExtend(d time.Duration) error {
	defer l.k.lock().Unlock()
	fault := l.k.checkManual(d)
	switch {
	case l.belief.Why() != nil:
		return l.belief.Why()
	case l.belief.Released():
		fault = errors.New("it was released: extend it while the operation runs")
	case !l.belief.IsManual():
		fault = errors.New("it has a heartbeat, which extends it: take it with Manual to do so " +
			"yourself")
	}
	if fault != nil {
		return &Error{Op: "extend", Name: l.Name(), Kind: ErrConfig, Err: fault}
	}
	l.belief.Manual(d)
	return nil
}

// extended books the answer to an extension by d that was sent at an instant,
// and tells of a loss.
func (k *Keeper) extended(l *Lease, a store.Answer, sent instant, d time.Duration) error {
	b := k.lock()
	news := losses{b: b, now: k.clock.Now()}
	if l.belief.Held() {
		news.renewal(l, a, d, sent) // its bound follows when the old instant comes
	}
	lost := l.belief.Why()
	b.Unlock()
	news.deliver()
	if lost == nil {
		return nil
	}
	return lost
}
