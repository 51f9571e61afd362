package renewer

import (
	"context"
)

// Context is the operation's: it derives from the context given to Acquire, and ends when that
// ends, when the lease is lost — context.Cause is a *[LostError] then — or when it is released.
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
