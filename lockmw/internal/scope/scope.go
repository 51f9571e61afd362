// Package scope takes locks for operations, and finds in a context which locks
// it runs under. Package lockmw and the adapters stand on it.
package scope

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
	"github.com/lockbeat/lockbeat/renewer"
)

// scope is one call under a lock. It is the function's context at the same
// time, which saves an allocation a call.
type scope struct {
	context.Context // ends with the lease, at the latest

	keeper *renewer.Keeper
	lease  *renewer.Lease

	limited bool // the lease is a slot
	strict  bool

	outer *scope             // whose lease an inner call runs in; nil for the one that took it
	all   []*scope           // of several locks, taken and freed together; lease is the first's
	end   context.CancelFunc // ends Context when the scope is over; nil if the release does

	users   atomic.Int32 // calls that have not left: its own and those inside of it; 0: it is over
	left    atomic.Bool  // the scope's own call has left
	unwound atomic.Bool  // one of the calls did not return
}

type (
	scopeKey struct{} // finds the innermost scope
	fenceKey struct{} // finds that or what [WithFence] was given, whichever is further in
)

// newScope is that of a call that has taken a lock.
func newScope(k *renewer.Keeper, l *renewer.Lease, limited, strict bool) *scope {
	s := &scope{Context: l.Context(), keeper: k, lease: l, limited: limited, strict: strict}
	return s.open()
}

// open makes a scope whose own call begins.
func (s *scope) open() *scope {
	s.users.Store(1)
	return s
}

// Value finds the scope itself, beside the caller's values, until it is over: a
// goroutine of the operation may outlive it.
func (s *scope) Value(key any) any {
	if (key == (scopeKey{}) || key == (fenceKey{})) && s.users.Load() > 0 {
		return s
	}
	return s.Context.Value(key)
}

// scopes are those that ctx runs in, the innermost first.
func scopes(ctx context.Context) iter.Seq[*scope] {
	return func(yield func(*scope) bool) {
		for s := innermost(ctx); s != nil; s = innermost(s.Context) {
			if !yield(s) {
				return
			}
		}
	}
}

// underLockOf reports whether ctx is that of an operation that holds a lock of
// k.
func underLockOf(ctx context.Context, k *renewer.Keeper) bool {
	for s := range scopes(ctx) {
		if s.keeper == k {
			return true
		}
	}
	return false
}

// innermost is the scope that ctx runs in, nil if there is none.
func innermost(ctx context.Context) *scope {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// leases are those that the scope runs under.
func (s *scope) leases() iter.Seq[*renewer.Lease] {
	return func(yield func(*renewer.Lease) bool) {
		if s.all == nil {
			yield(s.lease)
			return
		}
		for _, one := range s.all {
			if !yield(one.lease) {
				return
			}
		}
	}
}

// leaseOn is the lease on a lock or limit, nil if the scope has none.
func (s *scope) leaseOn(on names.ID) *renewer.Lease {
	if s.all == nil && s.lease.Name() == on.Name && s.limited == on.Limited {
		return s.lease
	}
	for _, one := range s.all {
		if l := one.leaseOn(on); l != nil {
			return l
		}
	}
	return nil
}

// Fence is the fencing token of the innermost lock that ctx runs under, or the
// one that [WithFence] was given; 0 without. Of several locks that were taken
// together it is that of the first.
func Fence(ctx context.Context) int64 {
	if fence, ok := ownFence(ctx); ok {
		return fence
	}
	f, _ := ctx.Value(fenceKey{}).(passedOn)
	return f.fence
}

// ownFence is the token of the innermost lock of this process that ctx runs
// under, or 0 if that has been hidden. ok reports whether there is one, or a
// hidden one.
func ownFence(ctx context.Context) (fence int64, ok bool) {
	switch f := ctx.Value(fenceKey{}).(type) {
	case *scope:
		return f.lease.Fence(), true
	case passedOn:
		if f.fence == 0 {
			return 0, true
		}
		return ownFence(f.around)
	default:
		return 0, false
	}
}

// FenceOf is the fencing token of a lock or limit, 0 if ctx does not run under
// it, or if it is not one.
func FenceOf(ctx context.Context, set names.Set) int64 {
	w, one, _ := set.One()
	if !one {
		return 0
	}
	for s := range scopes(ctx) {
		if l := s.leaseOn(w.ID()); l != nil {
			return l.Fence()
		}
	}
	return 0
}

// WithFence returns a context in which [Fence] is a token that a caller in
// another process has passed on, unless ctx runs under a lock of this process.
// A fence of 0 hides all tokens around it. One below 0 or above 2^53-1 is none,
// and changes nothing.
func WithFence(ctx context.Context, fence int64) context.Context {
	if fence < 0 || fence > wire.MaxFence {
		return ctx
	}
	return context.WithValue(ctx, fenceKey{}, passedOn{ctx, fence})
}

// passedOn is a token that [WithFence] was given, or 0. Whether a lock of this
// process is around it is looked up when the token is asked for, since a stream
// may take its lock later.
type passedOn struct {
	around context.Context
	fence  int64
}

// Held reports whether ctx runs under all of the locks of a set, and they are
// valid by the clock.
func Held(ctx context.Context, set names.Set) bool {
	for w := range set.All() {
		if !slices.ContainsFunc(slices.Collect(scopes(ctx)), func(s *scope) bool {
			l := s.leaseOn(w.ID())
			return l != nil && l.Valid()
		}) {
			return false
		}
	}
	return set.Err() == nil
}

// Remaining is how long the innermost lock that ctx runs under may be relied on
// if no further heartbeat succeeds, or the shortest of several that were taken
// together; 0 without.
func Remaining(ctx context.Context) time.Duration {
	s := innermost(ctx)
	if s == nil {
		return 0
	}
	left := s.lease.Remaining()
	for l := range s.leases() {
		left = min(left, l.Remaining())
	}
	return left
}

// Hold is a lock or a slot that an operation runs under.
type Hold struct {
	*renewer.Lease

	Keeper  *renewer.Keeper
	Limited bool // a slot
}

// Leases are those of this process that ctx runs under, the innermost first. A
// lock that an inner call has found again comes once for each call.
func Leases(ctx context.Context) iter.Seq[Hold] {
	return func(yield func(Hold) bool) {
		for s := range scopes(ctx) {
			if s.all == nil {
				if !yield(Hold{s.lease, s.keeper, s.limited}) {
					return
				}
				continue
			}
			for _, one := range s.all {
				if !yield(Hold{one.lease, one.keeper, one.limited}) {
					return
				}
			}
		}
	}
}

// mostMargin bounds the part of a caller's time that is not spent waiting for a
// lock.
const mostMargin = 5 * time.Second

// AnswerBy returns when to tell a caller with a deadline that it does not get
// its lock, so that the refusal reaches it in time: a quarter of the time that
// is left before the deadline, at most 5 s.
func AnswerBy(deadline time.Time) time.Time {
	left := max(time.Until(deadline), 0)
	return deadline.Add(-min(left/4, mostMargin))
}

// bound bounds the settings of a call that must be answered before its
// deadline.
func bound(ctx context.Context, opt *option.Settings) {
	deadline, ok := ctx.Deadline()
	left := time.Until(AnswerBy(deadline))
	if !ok || left <= 0 { // in the latter case the context ends the call
		return
	}
	opt.Wait = min(opt.Wait, left)
	if opt.Within == 0 || opt.Within > left {
		opt.Within = left
	}
}

// ErrNotHeld means that a context runs under no lock.
var ErrNotHeld = errors.New("lockbeat: not under the lock")

// Extend makes the innermost lock that ctx runs under last for d from now, or
// all of several taken by lockmw.All, one after the other until the store does
// not answer. It must have been taken with lockmw.Manual. See
// renewer.Lease.Extend for the errors; those of several are joined, and some
// may have been extended then. [ErrNotHeld] if ctx runs under no lock.
func Extend(ctx context.Context, d time.Duration) error {
	s := innermost(ctx)
	switch {
	case s == nil:
		return fmt.Errorf("%w: there is nothing to extend; call Extend with the context that the "+
			"function under the lock was given", ErrNotHeld)
	case s.all == nil:
		return s.lease.Extend(ctx, d)
	}
	var errs []error
	for _, one := range s.all {
		err := one.lease.Extend(ctx, d)
		if one.outer != nil && errors.Is(err, renewer.ErrConfig) {
			continue // a lock of an outer call is extended by that call's heartbeat
		}
		if errs = append(errs, err); errors.Is(err, renewer.ErrUnavailable) {
			break // the next question would take as long
		}
	}
	return errors.Join(errs...)
}
