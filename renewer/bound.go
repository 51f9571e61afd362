package renewer

import (
	"context"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// bound is the time limit of requests that begin at about the same
// time. A context with a deadline costs five allocations and a timer;
// sharing one saves most of what a release would cost in this process.
type bound struct {
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
	b := k.bound.Load()
	if b == nil || now >= b.until {
		fresh := &bound{until: now.Add(k.cfg.RequestTimeout / 16)}
		fresh.ctx, fresh.cancel = context.WithTimeout(k.life, k.cfg.RequestTimeout)
		if k.bound.CompareAndSwap(b, fresh) {
			b = fresh // the former ends by itself, with the last of its requests
		} else {
			fresh.cancel()
			b = k.bound.Load()
		}
	}
	return b.ctx
}

// beginRequest limits a question of the caller's to the store, which
// ends with ctx too. It tells how many fencing tokens to reserve.
//
// Where nothing but [Config.RequestTimeout] can end it, it shares the limit of
// other requests. Otherwise the end loop keeps the time, and the context becomes
// the operation's if the answer is yes, so that an acquire makes only one.
func (c *call) beginRequest(
	ctx context.Context, limit instant,
) (request context.Context, reserve int) {
	k, l := c.k, c.l
	shared := ctx.Done() == nil && limit < c.bound
	if !shared && l.op.Load() == nil {
		l.op.Store(c.opContext(ctx))
	}
	k.mu.Lock()
	halted := k.shutdown.phase >= phaseFree
	if l.line != nil {
		reserve = c.reserve()
		c.reserves = c.reserves || reserve > 0
	}
	if !shared && !halted {
		until := min(limit, c.bound)
		k.deadlines.set(l, until)
	}
	k.mu.Unlock()
	if shared {
		return k.request(ctx), reserve
	}
	op := l.op.Load()
	if halted { // nobody keeps the time any more
		op.cancel(ErrShutdown)
	}
	return op.ctx, reserve
}

// opContext makes the operation's context, in the room for it when it is the first.
func (c *call) opContext(ctx context.Context) *opContext {
	room := c.room
	c.room = nil // another request may still have it
	if room == nil {
		room = new(opContext)
	}
	return room.begin(ctx)
}

// endRequest tells whether the limit was reached before the answer.
func (c *call) endRequest(request context.Context) (late bool) {
	k, l := c.k, c.l
	if l.op.Load() == nil {
		return request.Err() != nil
	}
	k.mu.Lock()
	late = l.deadlinePlace == timing.Nowhere
	k.deadlines.Remove(l)
	k.mu.Unlock()
	if late {
		l.dropContext()
	}
	return late
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
