// Package asking is what the engine knows of questions to the store: for how long one may take,
// whose answers count, on which shard a name is, and whether a shard answers at all. It knows no
// lease.
package asking

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// Requests limits the questions to the store that end with no caller's context. Its
// methods may be called concurrently.
//
// What it holds true: a question that begins now gets a context that ends after at most timeout,
// and after at least fifteen sixteenths of it unless End is called.
type Requests struct {
	timeout time.Duration
	clock   *timing.Clock
	life    context.Context // the parent of all of them
	cancel  context.CancelFunc
	latest  atomic.Pointer[sharedDeadline]
}

// sharedDeadline is the context of questions that begin at about the same time. One of its own
// takes five allocations and a timer for each: see docs/design.md.
type sharedDeadline struct {
	ctx    context.Context
	cancel context.CancelFunc
	until  timing.Instant // questions that begin later need another
}

// NewRequests returns what limits each question to timeout.
func NewRequests(timeout time.Duration, clock *timing.Clock) *Requests {
	r := &Requests{timeout: timeout, clock: clock}
	r.life, r.cancel = context.WithCancel(context.Background())
	return r
}

// End ends all questions, those that begin later too.
func (r *Requests) End() { r.cancel() }

// Limit is the context of a question that begins now.
func (r *Requests) Limit() context.Context {
	now := r.clock.AtMost()
	shared := r.latest.Load()
	if shared != nil && now < shared.until {
		return shared.ctx
	}
	fresh := &sharedDeadline{until: now.Add(r.timeout / 16)}
	fresh.ctx, fresh.cancel = context.WithTimeout(r.life, r.timeout)
	if !r.latest.CompareAndSwap(shared, fresh) {
		fresh.cancel()
		return r.latest.Load().ctx
	}
	return fresh.ctx // the former ends by itself
}

// Limited is Limit with the values of ctx. It does not end with ctx: no caller waits for the
// answer, or the caller's end must not matter.
func (r *Requests) Limited(ctx context.Context) context.Context {
	if ctx == context.Background() {
		return r.Limit()
	}
	return &Valued{r.Limit(), ctx}
}

// Valued is one context's end with another's values.
type Valued struct {
	context.Context

	Values context.Context //nolint:containedctx // that is what it is for
}

// Value asks the end first: by it the context package finds its own.
func (c *Valued) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.Values.Value(key)
}
