package lockmw

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// scope is one lock being held. It is the function's context at the same time, which saves an allocation a call.
type scope struct {
	context.Context // the lease's; nil for an inner scope

	keeper *renewer.Keeper
	lease  *renewer.Lease
	strict bool
	inner  bool // runs inside a lease that an outer call holds and frees
}

type scopeKey struct{}

// Value finds the scope itself, beside the caller's values.
func (s *scope) Value(key any) any {
	if key == (scopeKey{}) {
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
// holder. Give it to whatever the operation writes to, and let that refuse tokens lower than the highest it has seen. 0 if
// ctx runs under no lock, which such a resource refuses.
func Fence(ctx context.Context) int64 {
	if s := innermost(ctx); s != nil {
		return s.lease.Fence()
	}
	return 0
}

// Held tells whether ctx runs under the lock on name and that lock is valid, by the clock: it is right on the first
// instruction after a pause of the process.
func Held(ctx context.Context, name string) bool {
	for s := innermost(ctx); s != nil; s = innermost(s.Context) {
		if s.lease.Name() == name && s.lease.Valid() {
			return true
		}
	}
	return false
}

// Remaining is how long the innermost lock that ctx runs under may be relied on if no further heartbeat succeeds; 0 if it is
// lost or there is none.
func Remaining(ctx context.Context) time.Duration {
	if s := innermost(ctx); s != nil {
		return s.lease.Remaining()
	}
	return 0
}
