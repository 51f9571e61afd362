package lockmw

import (
	"context"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// scope is one lock being held. It is the function's context at the same time, which saves an allocation a call.
type scope struct {
	context.Context // the lease's; nil for an inner scope

	keeper *renewer.Keeper
	lease  *renewer.Lease
	strict bool
	inner  bool     // runs inside a lease that an outer call holds and frees
	all    []*scope // of a scope that stands for several, taken and freed together; lease is that of the first
}

type (
	scopeKey struct{} // finds the innermost scope
	fenceKey struct{} // finds that or a token passed on, whichever is further in
)

// Value finds the scope itself, beside the caller's values.
func (s *scope) Value(key any) any {
	if key == (scopeKey{}) || key == (fenceKey{}) {
		return s
	}
	return s.Context.Value(key)
}

// innermost is the scope that ctx runs in, nil if there is none.
func innermost(ctx context.Context) *scope {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// find is the scope of a name in ctx. One that has been released is not found: its goroutine has outlived it.
func find(ctx context.Context, k *renewer.Keeper, name string) *scope {
	for s := innermost(ctx); s != nil; s = innermost(s.Context) {
		if s.keeper == k && s.lease.Name() == name && (s.lease.Valid() || s.lease.Err() != nil) {
			return s
		}
	}
	return nil
}

// Fence is the fencing token of the innermost lock that ctx runs under: positive, and greater than that of every earlier
// holder. Give it to whatever the operation writes to, and let that refuse tokens lower than the highest it has seen. It is the
// token of a caller elsewhere if that has passed one on ([WithFence]) and ctx runs under no lock taken since. 0 if there is
// neither, which such a resource refuses. Of several locks taken by [Keys] it is that of the first in order: see [FenceOf].
func Fence(ctx context.Context) int64 {
	switch f := ctx.Value(fenceKey{}).(type) {
	case *scope:
		return f.lease.Fence()
	case int64:
		return f
	default:
		return 0
	}
}

// FenceOf is the fencing token of the lock on name, for an operation under several locks: 0 if ctx does not run under it. Tokens of
// different names have nothing to do with each other.
func FenceOf(ctx context.Context, name string) int64 {
	for s := innermost(ctx); s != nil; s = innermost(s.Context) {
		if s.lease.Name() == name {
			return s.lease.Fence()
		}
	}
	return 0
}

// WithFence returns a context in which [Fence] is the given token: one that a caller in another process has passed on, whose lock
// this process works under. Take tokens only from callers that you trust: a resource that has seen one too high refuses everybody
// else. The adapters have helpers that carry tokens in headers and metadata.
func WithFence(ctx context.Context, fence int64) context.Context {
	return context.WithValue(ctx, fenceKey{}, fence)
}

// Held tells whether ctx runs under the lock on name and that lock is valid, by the clock: it is right on the first
// instruction after a pause of the process. With a name made by [Keys] it tells whether that is so of all of them.
func Held(ctx context.Context, name string) bool {
	if names := split(name); names != nil {
		return !slices.ContainsFunc(names, func(one string) bool { return !Held(ctx, one) })
	}
	for s := innermost(ctx); s != nil; s = innermost(s.Context) {
		if s.lease.Name() == name && s.lease.Valid() {
			return true
		}
	}
	return false
}

// Remaining is how long the innermost lock that ctx runs under, or the shortest of several taken by [Keys], may be relied on if no
// further heartbeat succeeds; 0 if it is lost or there is none.
func Remaining(ctx context.Context) time.Duration {
	s := innermost(ctx)
	if s == nil {
		return 0
	}
	left := s.lease.Remaining()
	for _, other := range s.all {
		left = min(left, other.lease.Remaining())
	}
	return left
}
