package renewer

import (
	"context"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Try is one of several names that [Keeper.TryEach] asks for, and what has become of it.
type Try struct {
	// Name is that of the lock, or of the limit.
	Name string
	// Limit is how many may have it at once, as for [AtMost]; nil for a lock.
	Limit func(name string) int

	// Lease is non-nil if and only if Err is nil, once TryEach has returned. If the observer or the
	// store panics, which passes through, it is what had been granted by then: release it.
	Lease *Lease
	Err   error
}

// TryEach is [Keeper.TryAcquire] for several names, for callers who need all of them: it asks for
// them in one request, and then, one after the other, for those that other callers of this process
// were asking for or giving back meanwhile. Once one is not to be had it asks for no more: the rest
// have that one's error. What was granted is the caller's, who gives back what is not kept.
func (k *Keeper) TryEach(ctx context.Context, tries []Try, opts ...Option) {
	var r request
	for _, opt := range opts {
		r = opt(r)
	}
	r.try = true
	all := make([]trying, 0, len(tries))
	defer func() {
		for i := range all {
			defer all[i].rescue() // of each, though another may panic as well
		}
	}()
	var failed error
	for i := range tries {
		t := &tries[i]
		r.limit = t.Limit
		if failed = k.check(t.Name, &r); failed != nil {
			break
		}
		one := trying{Try: t, call: new(call)}
		one.ctx, one.start = one.begin(ctx, k, t.Name, r)
		all = append(all, one)
		if failed = all[i].joinFirst(); failed != nil {
			break
		}
	}
	if failed == nil {
		failed = k.askEach(all)
	}
	for i := range all {
		one := &all[i]
		if failed == nil && !one.asked {
			one.Lease, one.Err = one.obtain(one.ctx, one.start)
			_ = one.end(one.ctx, one.start, one.Err)
		} else if !one.asked {
			one.giveUp()
			one.Err = one.end(one.ctx, one.start, failed)
		}
		if failed == nil {
			failed = one.Err
		}
	}
	for i := len(all); i < len(tries); i++ {
		tries[i].Err = failed
	}
}

// trying is one call of TryEach.
type trying struct {
	*Try
	*call

	ctx   context.Context //nolint:containedctx // what the observer made of the caller's
	start AcquireStart
	first bool // at the front of its queue, to be asked with the others
	asked bool
	q     question
}

// joinFirst has a call join the front of its queue, if that is free.
func (t *trying) joinFirst() (err error) {
	if t.q, err = t.question(t.ctx); err == nil {
		t.first, err = t.joinFront()
	}
	return err
}

// askEach asks for those at the front of their queues in one request, which ends as that of the
// first would. The error is the first one's that is not to be had.
func (k *Keeper) askEach(all []trying) (failed error) {
	claims := make([]store.Claim, 0, len(all))
	var first *trying
	for i := range all {
		t := &all[i]
		if !t.first {
			continue
		}
		if first == nil {
			first = t
		}
		t.l.owner = newOwner()
		claims = append(claims, t.claim(t.ctx, 0))
	}
	if first == nil {
		return nil
	}
	limit := first.q.sent.Add(k.cfg.RequestTimeout)
	request, _ := first.beginRequest(first.ctx, first.q.sent, limit)
	grants := k.store.Acquire(request, claims)
	late := first.endRequest(request)
	answered := 0
	for i := range all {
		t := &all[i]
		if !t.first {
			continue
		}
		t.asked, t.q.late = true, late
		sent, err := t.answered(t.ctx, asking.GrantOf(grants, answered, len(claims)), t.q)
		answered++
		t.Lease, t.Err = t.conclude(t.ctx, t.start, sent, err)
		_ = t.end(t.ctx, t.start, t.Err)
		if failed == nil {
			failed = t.Err
		}
	}
	return failed
}

// ReleaseEach is [Lease.Release] for several leases, in one request for those of k. The errors are
// in their order.
func (k *Keeper) ReleaseEach(ctx context.Context, leases []*Lease) []error {
	return k.releaseEach(ctx, leases, true)
}

// AbortEach is [Lease.Abort] for several leases, as [Keeper.ReleaseEach] is Release.
func (k *Keeper) AbortEach(ctx context.Context, leases []*Lease) []error {
	return k.releaseEach(ctx, leases, false)
}

func (k *Keeper) releaseEach(ctx context.Context, leases []*Lease, orderly bool) []error {
	errs, ends := make([]error, len(leases)), make([]ending, 0, len(leases))
	over := 0 // so many are, or were about to be when something panicked
	defer func() {
		for i := range ends {
			if !ends[i].over {
				defer k.discard(ends[i].l, ends[i].l.unsettled())
			}
		}
		for _, l := range leases[over:] {
			defer l.k.discard(l, l.unsettled())
		}
	}()
	holds := make([]store.Hold, 0, len(leases))
	for i, l := range leases {
		over++
		if l.k != k {
			errs[i] = l.k.release(ctx, l, orderly)
			continue
		}
		e, done := k.endLease(l, orderly)
		if done {
			continue
		}
		ends = append(ends, ending{ended: e, l: l, err: &errs[i]})
		if e.was == stateHeld || e.broken() {
			holds = append(holds, e.hold)
		}
	}
	var answers []store.Answer
	if len(holds) > 0 {
		answers = k.store.Release(k.requests.Limited(ctx), holds)
	}
	answered := 0
	for i := range ends {
		e := &ends[i]
		lost, failed := e.lost, error(nil)
		switch {
		case e.was == stateHeld:
			a := asking.AnswerTo(answers, answered, len(holds))
			lost, failed = k.freed(e.l, e.hold, a, e.now)
			answered++
		case e.broken():
			failed = k.brokenFreed(e.l, e.hold, asking.AnswerTo(answers, answered, len(holds)))
			answered++
		default:
			k.abandon(e.l, e.ended)
		}
		k.revisit(e.l, e.ended)
		left := k.forget(e.l, e.ended, lost)
		e.over = true
		left()
		*e.err = k.released(e.l, e.ended, lost, failed)
	}
	return errs
}

// ending is one lease of ReleaseEach.
type ending struct {
	ended

	l    *Lease
	err  *error
	over bool
}
