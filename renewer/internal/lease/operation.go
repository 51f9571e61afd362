package lease

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
)

// Operation is the context of what runs under a lease. It is made when it is
// first asked for, since it takes as much memory as the rest of a lease, and a
// program may hold very many without ever selecting on their ends.
type Operation struct {
	//nolint:containedctx // given to Acquire, or what the observer made of it; nil until granted
	values context.Context
	made   atomic.Pointer[Context]
}

// Context is one that ends with a cause. While the store is asked for a lease
// it is the question's, and becomes the operation's if the answer is yes: so an
// acquire makes only one.
type Context struct {
	//nolint:containedctx // it is the holder's
	Ctx     context.Context
	Cancel  context.CancelCauseFunc
	Unwatch func() bool   // stops watching the caller's; nil without. As guarded as the lease
	Freeing asking.Valued // of the request that frees the lease
}

// Begin derives it from parent, in place.
func (c *Context) Begin(parent context.Context) *Context {
	c.Ctx, c.Cancel = context.WithCancelCause(parent)
	return c
}

// ErrReleased is the cause of an operation's context after a clean release.
var ErrReleased = fmt.Errorf("lockbeat: lease released: %w", context.Canceled)

// releasedContext is for those who ask for it after the release only.
var releasedContext = func() *Context {
	c := new(Context).Begin(context.Background())
	c.Cancel(ErrReleased)
	return c
}()

// Begin gives the operation what its context derives from, unless it has one
// that was a question's.
func (o *Operation) Begin(values context.Context) { o.values = values }

// Begun reports whether the caller has the lease: else it is about to.
func (o *Operation) Begun() bool { return o.values != nil }

// Context is the operation's.
func (o *Operation) Context() *Context {
	if c := o.made.Load(); c != nil {
		return c
	}
	c := new(Context).Begin(o.values)
	if !o.made.CompareAndSwap(nil, c) { // it has just been made, or ended
		c.Cancel(nil)
	}
	return o.made.Load()
}

// Made is the context if it was made, and is not that of a lease that was
// released before; else nil.
func (o *Operation) Made() *Context {
	if c := o.made.Load(); c != releasedContext {
		return c
	}
	return nil
}

// Seen is the context for observers. If it was not asked for yet, it is the one
// that it would derive from.
func (o *Operation) Seen() context.Context {
	if c := o.Made(); c != nil {
		return c.Ctx
	}
	return o.values
}

// Ask sets the context of a question, in room for it.
func (o *Operation) Ask(ctx context.Context, room *Context) { o.made.Store(room.Begin(ctx)) }

// Drop ends a context that is not to be the operation's. Only before the lease
// is granted.
func (o *Operation) Drop() {
	if c := o.made.Swap(nil); c != nil {
		c.Cancel(nil)
	}
}

// End ends the operation's context, even if it is not made yet. The first cause
// counts.
func (o *Operation) End(cause error) {
	if o.made.Load() == nil {
		c := releasedContext
		if cause != ErrReleased { //nolint:errorlint // that very error
			c = new(Context).Begin(o.values)
			c.Cancel(cause)
		}
		if o.made.CompareAndSwap(nil, c) {
			return
		}
	}
	o.made.Load().Cancel(cause)
}
