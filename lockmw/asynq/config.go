package asynqmw

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"
)

// Configure returns cfg with its IsFailure, RetryDelayFunc, ErrorHandler and BaseContext decorated,
// so that a task that did not run for want of its lock uses up no attempt, comes back soon, and
// raises no alarm, and so that handlers know that. cfg's own functions decide everything else,
// asynq's defaults if it has none. Configuring twice changes nothing more. What is set afterwards
// replaces what is decorated: configure last.
func Configure(cfg asynq.Config) asynq.Config {
	cfg.IsFailure = isFailure(cfg.IsFailure)
	cfg.RetryDelayFunc = retryDelay(cfg.RetryDelayFunc)
	cfg.ErrorHandler = errorHandler(cfg.ErrorHandler)
	cfg.BaseContext = baseContext(cfg.BaseContext)
	return cfg
}

// isFailure lets next decide about all but a [NotRunError], which is no failure.
func isFailure(next func(error) bool) func(error) bool {
	return func(err error) bool {
		switch {
		case notRun(err) != nil:
			return false
		case next == nil:
			return err != nil
		default:
			return next(err)
		}
	}
}

// retryDelay lets next decide about all but a [NotRunError], which says itself when the task comes
// back.
func retryDelay(next asynq.RetryDelayFunc) asynq.RetryDelayFunc {
	if next == nil {
		next = asynq.DefaultRetryDelayFunc
	}
	return func(n int, err error, task *asynq.Task) time.Duration {
		if e := notRun(err); e != nil {
			return e.RetryIn
		}
		return next(n, err, task)
	}
}

// errorHandler passes all errors on to next, except a [NotRunError] for which asynq neither
// archives the task nor counts an attempt.
func errorHandler(next asynq.ErrorHandler) asynq.ErrorHandler {
	return asynq.ErrorHandlerFunc(func(ctx context.Context, task *asynq.Task, err error) {
		if e := notRun(err); next != nil && (e == nil || e.Archived || e.Counted) {
			next.HandleError(ctx, task, err)
		}
	})
}

type configuredKey struct{}

// baseContext marks next's context, by which handlers know that the server is configured.
func baseContext(next func() context.Context) func() context.Context {
	if next == nil {
		next = context.Background
	}
	return func() context.Context { return context.WithValue(next(), configuredKey{}, true) }
}

// configured reports whether the server that ctx came from counts no attempt for a refused task.
// For a handler that no server calls, as in a test, nothing counts attempts.
func configured(ctx context.Context) bool {
	_, served := asynq.GetMaxRetry(ctx)
	return !served || ctx.Value(configuredKey{}) != nil
}

// notRun finds the NotRunError in err, nil if there is none.
func notRun(err error) *NotRunError {
	e, _ := errors.AsType[*NotRunError](err)
	return e
}
