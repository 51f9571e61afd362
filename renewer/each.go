package renewer

import (
	"context"
	"slices"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/desk"
	"github.com/lockbeat/lockbeat/renewer/internal/lease"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// AcquireEach is Acquire with Try for several requests, all of which the caller
// needs: in one question, and then one by one for what this process was asking
// for or giving back. Once one fails it asks for no more: the rest have that
// error.
//
// Results are in the order of requests. A lease is non-nil if and only if its
// error is nil. Release those that you don't keep; there are none after a
// panic.
func (k *Keeper) AcquireEach(
	ctx context.Context, requests []Request,
) (leases []*Lease, errs []error) {
	leases, errs = make([]*Lease, len(requests)), make([]error, len(requests))
	all := make([]trying, 0, len(requests))
	over := false
	defer func() {
		if !over {
			granted := slices.DeleteFunc(leases, func(l *Lease) bool { return l == nil })
			defer k.ReleaseEach(ctx, granted, true)
		}
		for i := range all {
			defer all[i].rescue() // of each, though another may panic as well
		}
	}()
	var failed error
	for i, r := range requests {
		r.Try = true
		if failed = k.check(&r); failed != nil {
			break
		}
		one := trying{lease: &leases[i], err: &errs[i], call: new(call)}
		one.ctx, one.start = one.begin(ctx, k, r)
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
			*one.lease, *one.err = one.obtain(one.ctx, one.start)
			_ = one.end(one.ctx, one.start, *one.err)
		} else if !one.asked {
			one.giveUp()
			*one.err = one.end(one.ctx, one.start, failed)
		}
		if failed == nil {
			failed = *one.err
		}
	}
	for i := len(all); i < len(requests); i++ {
		errs[i] = failed
	}
	over = true
	return leases, errs
}

// trying is one call of AcquireEach.
type trying struct {
	*call

	lease **Lease
	err   *error
	ctx   context.Context //nolint:containedctx // what the observer made of the caller's
	start AcquireStart
	first bool // at the front of its queue, to be asked with the others
	asked bool
	q     question
}

// joinFirst has a call join the front of its queue, if that is free.
func (t *trying) joinFirst() (err error) {
	if t.q, err = t.open(t.ctx); err == nil {
		if _, err = t.join(t.ctx, true); err == errBehind { //nolint:errorlint // that very error
			return nil
		}
		t.first = err == nil
	}
	return err
}

// askEach asks for those at the front of their names in one request, which ends
// as that of the first would. The error is the first one's that is not to be
// had.
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
		t.l.belief.Owner = lease.NewOwner()
		claims = append(claims, t.q.claim(t.ctx, 0))
	}
	if first == nil {
		return nil
	}
	request, _ := first.q.begin(first.ctx)
	grants := k.store.Acquire(request, claims)
	first.q.end(request)
	answered := 0
	for i := range all {
		t := &all[i]
		if !t.first {
			continue
		}
		t.asked, t.q.late = true, first.q.late
		sent, err := t.q.judge(t.ctx, asking.GrantOf(grants, answered, len(claims)))
		answered++
		*t.lease, *t.err = t.conclude(t.ctx, t.start, sent, err)
		_ = t.end(t.ctx, t.start, *t.err)
		if failed == nil {
			failed = *t.err
		}
	}
	return failed
}

// ReleaseEach is [Lease.Release], or with abort [Lease.Abort], of several
// leases, in one request. The errors are in their order. Nil is ignored, as
// AcquireEach returns it.
func (k *Keeper) ReleaseEach(ctx context.Context, leases []*Lease, abort bool) []error {
	errs, ends := make([]error, len(leases)), make([]ended, len(leases))
	over := 0 // so many are, or were about to be when something panicked
	defer func() {
		for i, l := range leases {
			if i >= over && l != nil {
				defer l.k.discard(l, desk.Place{}, l.belief.Unsettled())
			} else if ends[i].l != nil {
				defer ends[i].rescue()
			}
		}
	}()
	holds := make([]store.Hold, 0, len(leases))
	for i, l := range leases {
		over++
		if l == nil {
			continue
		} else if l.k != k {
			errs[i] = l.release(ctx, !abort)
			continue
		}
		if e, done := l.end(!abort); !done {
			if ends[i] = e; e.asks() {
				holds = append(holds, e.hold)
			}
		}
	}
	var answers []store.Answer
	if len(holds) > 0 {
		answers = k.store.Release(k.requests.Limited(ctx), holds)
	}
	answered := 0
	for i := range ends {
		e := &ends[i]
		if e.l == nil {
			continue
		}
		var a store.Answer
		if e.asks() {
			a = asking.AnswerTo(answers, answered, len(holds))
			answered++
		}
		errs[i] = e.settle(a)
	}
	return errs
}
