package grpcmw

import "context"

// earlyContext is the handler's context before the lock is held. It finds the lock once
// that is held, since an interceptor further in may keep the context for the handler.
type earlyContext struct {
	context.Context

	stream *serverStream
}

// streamKey finds the innermost stream that had no lock when its context was taken.
type streamKey struct{}

func (c earlyContext) Value(key any) any {
	if key == (streamKey{}) {
		return c.stream
	}
	if h := c.stream.hold.Load(); h != nil {
		return h.ctx.Value(key)
	}
	return c.Context.Value(key)
}
