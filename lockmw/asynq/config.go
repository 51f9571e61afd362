package asynqmw

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw/jobs"
)

// What [Configure] sets where an asynq.Config has none.
const (
	taskCheckInterval        = 10 * time.Millisecond // asynq's own is a second
	delayedTaskCheckInterval = time.Second           // asynq's own is 5 s
)

// Configure returns cfg with its IsFailure, RetryDelayFunc, ErrorHandler and BaseContext decorated,
// so that a task that did not run for want of its lock uses up no attempt, comes back soon, and
// raises no alarm, and so that handlers know that, and how many workers there are. cfg's own
// functions decide everything else, asynq's defaults if it has none.
//
// TaskCheckInterval is 10 ms and DelayedTaskCheckInterval a second where they are not set: asynq's
// own, 1 s and 5 s, are too slow for tasks that wait for locks. An idle server then asks Redis
// about 90 times a second for each of its queues, in place of once or twice: docs/asynq.md has the
// price, and when to choose a longer interval.
//
// Configuring twice changes nothing more. What is set afterwards replaces what is decorated, and a
// Concurrency that is set afterwards is not known: configure last, and once for each server.
func Configure(cfg asynq.Config) asynq.Config {
	if cfg.TaskCheckInterval <= 0 {
		cfg.TaskCheckInterval = taskCheckInterval
	}
	if cfg.DelayedTaskCheckInterval == 0 { // asynq takes a negative one as it is
		cfg.DelayedTaskCheckInterval = delayedTaskCheckInterval
	}
	cfg.IsFailure = isFailure(cfg.IsFailure)
	cfg.RetryDelayFunc = retryDelay(cfg.RetryDelayFunc)
	cfg.ErrorHandler = errorHandler(cfg.ErrorHandler)
	cfg.BaseContext = baseContext(cfg.BaseContext, jobs.NewSlots(cfg.Concurrency))
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

// slotsKey is where a handler's context has the slots of its server: nothing if that is not
// configured, or if no server calls the handler, as in a test.
type slotsKey struct{}

// baseContext marks next's context, by which handlers know the slots of their server.
func baseContext(next func() context.Context, s *jobs.Slots) func() context.Context {
	if next == nil {
		next = context.Background
	}
	return func() context.Context { return context.WithValue(next(), slotsKey{}, s) }
}

// notRun finds the NotRunError in err, nil if there is none.
func notRun(err error) *NotRunError {
	e, _ := errors.AsType[*NotRunError](err)
	return e
}
