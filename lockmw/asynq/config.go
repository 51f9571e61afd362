package asynqmw

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"
)

// Configure returns cfg with its IsFailure, RetryDelayFunc and ErrorHandler decorated, so that a task that did not run for want
// of its lock uses up no attempt, comes back soon, and raises no alarm. What cfg has of its own decides for everything else,
// asynq's defaults if it has nothing. To configure twice changes nothing more.
func Configure(cfg asynq.Config) asynq.Config {
	cfg.IsFailure = IsFailure(cfg.IsFailure)
	cfg.RetryDelayFunc = RetryDelay(cfg.RetryDelayFunc)
	cfg.ErrorHandler = ErrorHandler(cfg.ErrorHandler)
	return cfg
}

// IsFailure decorates what asynq.Config.IsFailure is set to: a [NotRunError] is no failure, next decides about the rest. A nil
// next is asynq's default: every error is a failure.
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

// RetryDelay decorates what asynq.Config.RetryDelayFunc is set to: a [NotRunError] says itself when the task comes back, next
// decides about the rest. A nil next is asynq.DefaultRetryDelayFunc.
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

// ErrorHandler decorates what asynq.Config.ErrorHandler is set to: next does not hear of a [NotRunError], unless asynq archives
// the task for it. A nil next hears nothing.
func ErrorHandler(next asynq.ErrorHandler) asynq.ErrorHandler {
	return asynq.ErrorHandlerFunc(func(ctx context.Context, task *asynq.Task, err error) {
		if e := notRun(err); next != nil && (e == nil || e.Archived) {
			next.HandleError(ctx, task, err)
		}
	})
}

// notRun finds the NotRunError in err, nil if there is none.
func notRun(err error) *NotRunError {
	e, _ := errors.AsType[*NotRunError](err)
	return e
}
