package grpcmw

import (
	"context"
	"errors"
	"runtime"
)

// guard runs a stream's operation; it returns as soon as the lock is lost that
// ctx runs under, or the client has been silent for too long.
//
// gRPC hears nothing of such an end, and waits for the peer. So each operation
// has a goroutine of its own. After such an end it stays behind until the
// handler has returned, when gRPC ends the stream. It costs about a
// microsecond. One goroutine for all operations of a stream was rejected: it
// would have to be switched to and from as often, and to be ended.
func guard(ctx context.Context, do func() error) error {
	done := make(chan outcome, 1)
	go func() {
		o := outcome{fault: true}
		defer func() {
			if o.fault {
				o.panicked = recover()
			}
			done <- o
		}()
		o.err = do()
		o.fault = false
	}()
	select {
	case o := <-done:
		return o.unfold()
	case <-ctx.Done():
		if e := cutOff(ctx); e != nil {
			// what becomes of the operation does not matter any more, not even
			// if it panics
			return e
		}
		return (<-done).unfold() // the caller has gone, by which the stream has ended
	}
}

// cutOff is why this package has ended a stream's context; nil if it has not.
func cutOff(ctx context.Context) *callError {
	if loss := lossIn(ctx); loss != nil {
		return lostError(loss, nil)
	}
	if errors.Is(context.Cause(ctx), ErrSilence) {
		return silentError()
	}
	return nil
}

// outcome is how an operation went on its goroutine.
type outcome struct {
	err      error
	fault    bool // it did not return
	panicked any  // but panicked with this, or, if nil, exited
}

// unfold returns, panics or exits on this goroutine as the operation did on its
// own.
func (o outcome) unfold() error {
	switch {
	case o.panicked != nil:
		panic(o.panicked)
	case o.fault:
		runtime.Goexit()
	}
	return o.err
}
