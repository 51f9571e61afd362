package renewer

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// requests limits the questions to the store that end with no caller's context. It knows no lease.
// Its methods may be called concurrently.
//
// What it holds true: a question that begins now gets a context that ends after at most timeout,
// and after at least fifteen sixteenths of it unless end is called.
type requests struct {
	timeout time.Duration
	clock   *timing.Clock
	life    context.Context // the parent of all of them
	end     context.CancelFunc
	latest  atomic.Pointer[sharedDeadline]
}

// sharedDeadline is the context of questions that begin at about the same time. One of its own
// takes five allocations and a timer for each: see "What pays for itself" in docs/design.md.
type sharedDeadline struct {
	ctx    context.Context
	cancel context.CancelFunc
	until  instant // questions that begin later need another
}

func newRequests(timeout time.Duration, clock *timing.Clock) *requests {
	r := &requests{timeout: timeout, clock: clock}
	r.life, r.end = context.WithCancel(context.Background())
	return r
}

// limit is the context of a question that begins now.
func (r *requests) limit() context.Context {
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

// limited is limit with the values of ctx. It does not end with ctx: no caller waits for the
// answer, or the caller's end must not matter.
func (r *requests) limited(ctx context.Context) context.Context {
	if ctx == context.Background() {
		return r.limit()
	}
	return &valued{r.limit(), ctx}
}

// valued is one context's end with another's values.
type valued struct {
	context.Context

	values context.Context
}

// Value asks the end first: by it the context package finds its own.
func (c *valued) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}
