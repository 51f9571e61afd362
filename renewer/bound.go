package renewer

import "context"

// bound is the time limit of requests that begin at about the same time. A context with a deadline costs five allocations and a
// timer; sharing one saves most of what a release would cost in this process.
type bound struct {
	ctx    context.Context
	cancel context.CancelFunc
	until  instant // when to make another
}

// request limits one question to the store by [Config.RequestTimeout], or a sixteenth less. It has the values of ctx, but does
// not end with it: no caller waits for the answer, or the caller's end must not matter.
func (k *Keeper) request(ctx context.Context) context.Context {
	now := k.clock.atMost()
	b := k.bound.Load()
	if b == nil || now >= b.until {
		fresh := &bound{until: now.add(k.cfg.RequestTimeout / 16)}
		fresh.ctx, fresh.cancel = context.WithTimeout(context.Background(), k.cfg.RequestTimeout)
		if k.bound.CompareAndSwap(b, fresh) {
			b = fresh // the former ends by itself, with the last of its requests
		} else {
			fresh.cancel()
			b = k.bound.Load()
		}
	}
	if ctx == context.Background() {
		return b.ctx
	}
	return valued{b.ctx, ctx}
}

// beginRequest limits a question of the caller's to the store, which ends with ctx too. The end loop keeps the time. The context
// becomes the lease's if the answer is yes, so that an acquire makes only one. It tells how many fencing tokens to reserve.
func (k *Keeper) beginRequest(ctx context.Context, l *Lease, limit instant) (request context.Context, reserve int) {
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancelCause(ctx)
	}
	k.mu.Lock()
	halted := k.halted
	if l.line != nil {
		reserve = l.line.reserve(k.cfg.HandOffs)
	}
	if !halted {
		k.ends.set(l, limit)
		k.endWaker.wakeBy(limit)
	}
	k.mu.Unlock()
	if halted { // nobody keeps the time any more
		l.cancel(ErrShutdown)
	}
	return l.ctx, reserve
}

// endRequest tells whether the limit was reached before the answer.
func (k *Keeper) endRequest(l *Lease) (late bool) {
	k.mu.Lock()
	late = l.place[ends] == nowhere
	k.ends.remove(l)
	k.mu.Unlock()
	if late {
		l.dropContext()
	}
	return late
}

// dropContext ends a context that is not to be the lease's.
func (l *Lease) dropContext() {
	if l.cancel != nil {
		l.cancel(nil)
	}
	l.ctx, l.cancel = nil, nil
}

// valued is one context's end with another's values.
type valued struct {
	context.Context

	values context.Context
}

// Value asks the end first: by it the context package finds its own.
func (c valued) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}
