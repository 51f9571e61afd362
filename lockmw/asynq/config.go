package asynqmw

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"
)

// Configure returns cfg with its IsFailure, RetryDelayFunc, ErrorHandler and BaseContext decorated,
// so that a task that did not run for want of its lock uses up no attempt, comes back soon, and
// raises no alarm, and so that handlers know that. What cfg has of its own decides for everything
// else, asynq's defaults if it has nothing. To configure twice changes nothing more. What is set
// afterwards takes the place of what is decorated: configure last.
func Configure(cfg asynq.Config) asynq.Config {
	cfg.IsFailure = IsFailure(cfg.IsFailure)
	cfg.RetryDelayFunc = RetryDelay(cfg.RetryDelayFunc)
	cfg.ErrorHandler = ErrorHandler(cfg.ErrorHandler)
	cfg.BaseContext = BaseContext(cfg.BaseContext)
	return cfg
}

// IsFailure decorates what asynq.Config.IsFailure is set to: a [NotRunError] is no failure,
// next decides about the rest. A nil next is asynq's default: every error is a failure.
func IsFailure(next func(error) bool) func(error) bool {
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

// RetryDelay decorates what asynq.Config.RetryDelayFunc is set to: a [NotRunError] says itself when
// the task comes back, next decides about the rest. A nil next is asynq.DefaultRetryDelayFunc.
func RetryDelay(next asynq.RetryDelayFunc) asynq.RetryDelayFunc {
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

// ErrorHandler decorates what asynq.Config.ErrorHandler is set to: next
// does not hear of a [NotRunError], unless asynq archives the task for
// it or the error is [ErrNotConfigured]. A nil next hears nothing.
func ErrorHandler(next asynq.ErrorHandler) asynq.ErrorHandler {
	return asynq.ErrorHandlerFunc(func(ctx context.Context, task *asynq.Task, err error) {
		if e := notRun(err); next != nil && (e == nil || e.Archived || e.Counted) {
			next.HandleError(ctx, task, err)
		}
	})
}

type configuredKey struct{}

// BaseContext decorates what asynq.Config.BaseContext is set to: it marks the context, so that
// handlers know that the rest of the config is decorated too. Without it their refusals are
// [ErrNotConfigured]. A nil next is context.Background.
func BaseContext(next func() context.Context) func() context.Context {
	if next == nil {
		next = context.Background
	}
	return func() context.Context { return context.WithValue(next(), configuredKey{}, true) }
}

// configured reports whether the server that ctx came from counts no attempt for a refused task. A
// handler that is called by no server, as in a test, has nobody who counts.
func configured(ctx context.Context) bool {
	_, served := asynq.GetMaxRetry(ctx)
	return !served || ctx.Value(configuredKey{}) != nil
}

// notRun finds the NotRunError in err, nil if there is none.
func notRun(err error) *NotRunError {
	e, _ := errors.AsType[*NotRunError](err)
	return e
}
