package grpcmw

import (
	"context"
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/unwind"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
)

// Respond returns what a handler should return for an error of package lockmw:
// err with the status of the package's text. ctx is the call's, for the
// trailer. Other errors, and those that are a status already, are returned as
// they are; so is nil. The interceptors do so with whatever a handler returns.
// It may be called concurrently.
func Respond(ctx context.Context, err error) error {
	if e := translated(err); e != nil {
		return e.sent(ctx)
	}
	return err
}

// translated gives a handler's own error a status if its words may name a lock;
// it is nil if the error can go out as it is.
func translated(err error) *callError {
	if err == nil || errors.Is(err, unwind.Err) {
		return nil
	}
	//nolint:errorlint // a status further in goes out with the words of the whole error
	if outer, ok := err.(statusError); ok && isChosen(outer.GRPCStatus()) {
		return nil
	}
	within := said(err)
	sent, answered := errors.AsType[*callError](err)
	_, runOnce := errors.AsType[*once.Error](err)
	switch {
	case runOnce: // the work's end, not the lock's, even if that is a cause
		return reworded(err)
	case errors.Is(err, renewer.ErrLost):
		return lostError(err, nil)
	case answered:
		again := sent.with(err)
		again.retryIn = 0 // sent when it was made
		return again
	case !ofLock(err) && !strings.Contains(err.Error(), "lockbeat: "):
		// the latter is all that is left of one taken apart
		return nil
	case within != nil:
		return within
	case ofLock(err):
		return refused(err)
	default:
		return reworded(err)
	}
}

// said is the status that an error has further in, without the words around it;
// nil if it has none.
func said(err error) *callError {
	if e, ok := errors.AsType[statusError](err); ok && isChosen(e.GRPCStatus()) {
		return &callError{status: e.GRPCStatus(), causes: []error{err}}
	}
	return nil
}

// statusError is an error that says itself what its status is.
type statusError interface {
	error
	GRPCStatus() *status.Status
}

// isChosen reports whether a status is of a program's making, rather than what
// gRPC makes of any error.
func isChosen(st *status.Status) bool { return st != nil && st.Code() != codes.Unknown }

var lockKinds = []error{
	lockmw.ErrSkipped, renewer.ErrBusy, renewer.ErrUnavailable, renewer.ErrRejected,
	renewer.ErrShutdown, renewer.ErrName, renewer.ErrConfig,
}

// ofLock reports whether err comes from a lock that the handler did not get. A
// caller's cancellation is one too if a lock was waited for.
func ofLock(err error) bool {
	_, ok := errors.AsType[*renewer.Error](err)
	return ok || slices.ContainsFunc(lockKinds, func(kind error) bool {
		return errors.Is(err, kind)
	})
}

// reworded gives an error the code that gRPC gives it, without its words.
func reworded(err error) *callError {
	code := status.FromContextError(err).Code() // Unknown if no context has ended
	return newError(code, "the call failed by an error of a lock that it uses itself", []error{err})
}
