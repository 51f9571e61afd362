package renewer

import (
	"context"
	"fmt"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// Context is the operation's. It derives from the one given to Acquire, and ends with it, when
// the lease is lost (context.Cause is a *[LostError]), or when it is released.
func (l *Lease) Context() context.Context {
	return l.operation().ctx
}

func (l *Lease) operation() *opContext {
	if c := l.op.Load(); c != nil {
		return c
	}
	c := newOpContext(l.values)
	if !l.op.CompareAndSwap(nil, c) { // it has just been made, or ended
		c.cancel(nil)
	}
	return l.op.Load()
}

// seen is the lease's context for observers. If it was not asked for
// yet, it is the context that it would derive from.
func (l *Lease) seen() context.Context {
	if c := l.op.Load(); c != nil && c != releasedContext {
		return c.ctx
	}
	return l.values
}

// endContext ends the operation's context, even if it is not created yet. The first cause counts.
func (l *Lease) endContext(cause error) {
	if l.op.Load() == nil {
		c := releasedContext
		if cause != errReleased { //nolint:errorlint // that very error
			c = newOpContext(l.values)
			c.cancel(cause)
		}
		if l.op.CompareAndSwap(nil, c) {
			return
		}
	}
	l.op.Load().cancel(cause)
}

// unwatcher is what stops watching the caller's context. Under k.mu.
func (l *Lease) unwatcher() func() bool {
	if c := l.op.Load(); c != nil && c.unwatch != nil {
		return c.unwatch
	}
	return func() bool { return false }
}

// dropContext ends a context that is not to be the operation's. Only before the lease is granted.
func (l *Lease) dropContext() {
	if c := l.op.Swap(nil); c != nil {
		c.cancel(nil)
	}
}

// opContext is the context of a lease's operation. It is made when it is
// first asked for, since it takes as much memory as the rest of a lease,
// and a program may hold very many without ever selecting on their ends.
type opContext struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	// stops watching the caller's, for [Config.CancelGrace]; nil without. Guarded by Keeper.mu
	unwatch func() bool
	freeing asking.Valued // of the request that frees the lease
	// in Keeper.questions, while the store is asked for the lease. Guarded by Keeper.mu
	deadlinePlace timing.Place
}

func deadlinePlace(c *opContext) *timing.Place { return &c.deadlinePlace }

func newOpContext(parent context.Context) *opContext { return new(opContext).begin(parent) }

func (c *opContext) begin(parent context.Context) *opContext {
	c.ctx, c.cancel = context.WithCancelCause(parent)
	return c
}

// errReleased is the cause of a lease's context after a clean release.
var errReleased = fmt.Errorf("lockbeat: lease released: %w", context.Canceled)

// releasedContext is for those who ask for it after the release only.
var releasedContext = func() *opContext {
	c := newOpContext(context.Background())
	c.cancel(errReleased)
	return c
}()
