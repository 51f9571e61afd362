package lockmw

import (
	"context"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/naming"
	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
	"github.com/lockbeat/lockbeat/renewer"
)

// scope is one call under a lock. It is the function's context at the same time, which saves an
// allocation a call.
type scope struct {
	context.Context // ends with the lease, at the latest

	keeper *renewer.Keeper
	lease  *renewer.Lease

	strict bool

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
func newScope(k *renewer.Keeper, l *renewer.Lease, strict bool) *scope {
	return (&scope{Context: l.Context(), keeper: k, lease: l, strict: strict}).open()
}

// open makes a scope whose own call begins.
func (s *scope) open() *scope {
	s.users.Store(1)
	return s
}

// Value finds the scope itself, beside the caller's values, until it
// is over: a goroutine of the operation may outlive it.
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

// leaseOn is the lease on name, nil if the scope has none.
func (s *scope) leaseOn(name string) *renewer.Lease {
	name, _ = naming.CutRank(name)
	name, _, limit := naming.CutLimit(name)
	for l := range s.leases() {
		if l.Name() == name && l.Limited() == limit {
			return l
		}
	}
	return nil
}

// Fence is the fencing token of the innermost lock that ctx runs under: positive, and greater
// than that of every earlier holder. Give it to whatever the operation writes to, and let that
// refuse tokens lower than the highest it has seen. It is the token of a caller elsewhere if that
// has passed one on ([WithFence]) and ctx runs under no lock of this process. 0 if there is
// neither, which a resource refuses whose lowest is 1. Of several locks taken by [Keys] it is that
// of the first in order. Under several locks, or where the lock's name is at hand, take [FenceOf].
//
// A lock that is lost keeps its token until the operation has returned: the resource refuses what
// is written with it as soon as the next holder has written. A lock that is over has none.
func Fence(ctx context.Context) int64 {
	if fence, ok := ownFence(ctx); ok {
		return fence
	}
	f, _ := ctx.Value(fenceKey{}).(passedOn)
	return f.fence
}

// ownFence is the token of the innermost lock of this process that ctx runs under, or 0 if that has
// been hidden. ok reports whether there is one, or a hidden one.
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

// FenceOf is the fencing token of the lock on name, for an operation under several locks: 0
// if ctx does not run under it. Tokens of different names have nothing to do with each other.
func FenceOf(ctx context.Context, name string) int64 {
	for s := range scopes(ctx) {
		if l := s.leaseOn(name); l != nil {
			return l.Fence()
		}
	}
	return 0
}

// WithFence returns a context in which [Fence] is the given token: one that a caller in another
// process has passed on, whose lock this process works under. While ctx runs under a lock of this
// process, that one's token stays: what comes with a request must not hide it. A fence of 0 hides
// all tokens around it, for work that runs without its lock; only a lock taken further in has one
// then. No token is below 0 or above 2^53-1: such a fence changes nothing.
//
// Take tokens only from callers that you trust: a resource that has seen one too
// high refuses all others. The adapters have helpers that carry tokens in
// headers and metadata, and that strip them where requests come in from outside.
func WithFence(ctx context.Context, fence int64) context.Context {
	if fence < 0 || fence > wire.MaxFence {
		return ctx
	}
	return context.WithValue(ctx, fenceKey{}, passedOn{ctx, fence})
}

// passedOn is a token that [WithFence] was given, or 0. Whether a lock of this process is
// around it is looked up when the token is asked for, since a stream may take its lock later.
type passedOn struct {
	around context.Context
	fence  int64
}

// Held reports whether ctx runs under the lock on name and that lock is valid, by the clock: it is
// right on the first instruction after a pause of the process. With a name made by [Keys] it
// reports whether that is so of all of them.
func Held(ctx context.Context, name string) bool {
	if names := naming.Split(name); names != nil {
		return !slices.ContainsFunc(names, func(one string) bool { return !Held(ctx, one) })
	}
	for s := range scopes(ctx) {
		if l := s.leaseOn(name); l != nil && l.Valid() {
			return true
		}
	}
	return false
}

// Remaining is how long the innermost lock that ctx runs under, or the shortest of several taken
// by [Keys], may be relied on if no further heartbeat succeeds; 0 if it is lost or there is none.
func Remaining(ctx context.Context) time.Duration {
	s := innermost(ctx)
	if s == nil {
		return 0
	}
	return s.remaining()
}

func (s *scope) remaining() time.Duration {
	left := s.lease.Remaining()
	for l := range s.leases() {
		left = min(left, l.Remaining())
	}
	return left
}
