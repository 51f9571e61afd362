package renewer

import (
	"context"
)

// sharedDeadline is the time limit of requests that begin at about the same
// time. A context with a deadline costs five allocations and a timer;
// sharing one saves most of what a release would cost in this process.
type sharedDeadline struct {
	ctx    context.Context
	cancel context.CancelFunc
	until  instant // when to make another
}

// request limits one question to the store by [Config.RequestTimeout], or
// a sixteenth less. It has the values of ctx, but does not end with it:
// no caller waits for the answer, or the caller's end must not matter.
func (k *Keeper) request(ctx context.Context) context.Context {
	if ctx == context.Background() {
		return k.limit()
	}
	return &valued{k.limit(), ctx}
}

// requestFor is request for a lease whose operation is over, in the
// room of its context if it has one.
func (k *Keeper) requestFor(ctx context.Context, l *Lease) context.Context {
	c := l.op.Load()
	if c == nil || c == releasedContext || ctx == context.Background() {
		return k.request(ctx)
	}
	c.freeing = valued{k.limit(), ctx}
	return &c.freeing
}

// limit ends when a request that begins now has taken long enough.
func (k *Keeper) limit() context.Context {
	now := k.clock.AtMost()
	b := k.shared.Load()
	if b == nil || now >= b.until {
		fresh := &sharedDeadline{until: now.Add(k.cfg.RequestTimeout / 16)}
		fresh.ctx, fresh.cancel = context.WithTimeout(k.life, k.cfg.RequestTimeout)
		if k.shared.CompareAndSwap(b, fresh) {
			b = fresh // the former ends by itself, with the last of its requests
		} else {
			fresh.cancel()
			b = k.shared.Load()
		}
	}
	return b.ctx
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
