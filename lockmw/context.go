package lockmw

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/scope"
)

// Fence is the fencing token of the innermost lock that ctx runs under:
// positive, and greater than that of every earlier holder. Give it to what the
// function writes to, and let that refuse tokens below the highest that it has
// seen; package fencedb does so in a database. A lock that is lost keeps its
// token until the function has returned. Without a lock it is the token that a
// caller in another process has passed on, or 0. Of several locks it is that of
// the first: take [FenceOf].
func Fence(ctx context.Context) int64 { return scope.Fence(ctx) }

// FenceOf is the fencing token of the lock or limit on name, 0 if ctx does not
// run under it, or if name is a set of several. Tokens of different names have
// nothing to do with each other.
func FenceOf[N Name](ctx context.Context, name N) int64 {
	return scope.FenceOf(ctx, names.Set(setOf(name)))
}

// Held reports whether ctx runs under the lock on name, or all of several, and
// they are valid by the clock: it is right on the first instruction after a
// pause of the process.
func Held[N Name](ctx context.Context, name N) bool {
	return scope.Held(ctx, names.Set(setOf(name)))
}

// Remaining is how long the innermost lock that ctx runs under, or the shortest
// of several taken together, may be relied on if no further heartbeat succeeds;
// 0 if it is lost or there is none.
func Remaining(ctx context.Context) time.Duration { return scope.Remaining(ctx) }

// ErrNotHeld means that a context runs under no lock.
var ErrNotHeld = scope.ErrNotHeld

// Extend makes the innermost lock that ctx runs under, or all of several taken
// together, last for d from now. It must have been taken with [Manual]. See
// renewer.Lease.Extend for the errors; those of several are joined, and some
// may have been extended then. [ErrNotHeld] without a lock.
func Extend(ctx context.Context, d time.Duration) error { return scope.Extend(ctx, d) }
