package scope

import (
	"context"
	"errors"

	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/renewer"
)

// A call for a name that its context holds already runs inside that lease. An
// inner call may outlive the outer one, so each scope counts its own call and
// the inner ones. The last call to leave ends the scope; the last one of the
// outermost scope frees the lock. No call waits for another.

// reenter begins a call inside the lease that ctx runs under; nil if there is
// none. The error is why that lease is lost.
func reenter(
	ctx context.Context, k *renewer.Keeper, on names.ID, strict bool,
) (*scope, error) {
	for outer := range scopes(ctx) {
		lease := outer.leaseOn(on)
		if outer.keeper != k || lease == nil {
			continue
		}
		if err := lease.Err(); err != nil {
			return nil, err
		}
		if lease.Valid() && outer.join() {
			inner := (&scope{
				Context: ctx, keeper: k, lease: lease, limited: on.Limited, strict: strict,
				outer: outer,
			}).open()
			if ctx.Done() != outer.Done() {
				inner.follow(ctx)
			}
			return inner, nil
		}
	}
	return nil, nil //nolint:nilnil // neither
}

// join counts in an inner call, unless the scope is over.
func (s *scope) join() bool {
	for n := s.users.Load(); n > 0; n = s.users.Load() {
		if s.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// follow makes the context of an inner call end with the lease: ctx may have
// been detached from it, and the outer context may have ended before, with its
// caller.
func (s *scope) follow(ctx context.Context) {
	joined, cancel := context.WithCancelCause(ctx)
	var stops []func()
	for l := range s.outer.leases() {
		stops = append(stops, l.OnLoss(func() { cancel(l.Err()) }))
	}
	s.Context, s.end = joined, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(errOver)
	}
}

// lost is why a lease of the scope is lost, nil if none is.
func (s *scope) lost() error {
	var lost []error
	for l := range s.leases() {
		if err := l.Err(); err != nil {
			lost = append(lost, err)
		}
	}
	if len(lost) == 1 {
		return lost[0]
	}
	return errors.Join(lost...)
}

// leave counts out a call. The last one ends the scope, and frees the lock if
// the scope is the outermost. The error is [renewer.ErrLost] if the lock is
// lost, or turns out to be.
func (s *scope) leave(orderly bool) error {
	last, orderly := s.countOut(orderly)
	switch {
	case !last:
		return s.lost()
	case s.all != nil:
		return leaveAll(s.all, orderly)
	case s.outer != nil:
		return s.outer.leave(orderly)
	case orderly:
		return s.lease.Release(s.Context)
	default:
		return s.lease.Abort(s.Context)
	}
}

// countOut counts out a call, and ends the scope if it is the last one. all
// reports whether all of them, this one too, were orderly.
func (s *scope) countOut(orderly bool) (last, all bool) {
	if !orderly {
		s.unwound.Store(true)
	}
	if s.users.Add(-1) > 0 {
		return false, false
	}
	if s.end != nil {
		s.end()
	}
	return true, !s.unwound.Load()
}
