package asynqmw

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw/jobs"
)

// slotsKey is where a handler's context has the slots of its server: nothing if that is not
// configured, or if no server calls the handler, as in a test.
type slotsKey struct{}

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
	own := cfg
	if cfg.TaskCheckInterval <= 0 {
		cfg.TaskCheckInterval = 10 * time.Millisecond // asynq's own is a second
	}
	if cfg.DelayedTaskCheckInterval == 0 { // asynq takes a negative one as it is
		cfg.DelayedTaskCheckInterval = time.Second // asynq's own is 5 s
	}
	cfg.IsFailure = func(err error) bool {
		return err != nil && notRun(err) == nil && (own.IsFailure == nil || own.IsFailure(err))
	}
	if own.RetryDelayFunc == nil {
		own.RetryDelayFunc = asynq.DefaultRetryDelayFunc
	}
	cfg.RetryDelayFunc = func(n int, err error, task *asynq.Task) time.Duration {
		if e := notRun(err); e != nil {
			return e.RetryIn
		}
		return own.RetryDelayFunc(n, err, task)
	}
	cfg.ErrorHandler = asynq.ErrorHandlerFunc(
		func(ctx context.Context, task *asynq.Task, err error) {
			e := notRun(err)
			archived := e != nil && e.Outcome == jobs.OutcomeFailed
			if own.ErrorHandler != nil && (e == nil || archived || e.Counted) {
				own.ErrorHandler.HandleError(ctx, task, err)
			}
		})
	if own.BaseContext == nil {
		own.BaseContext = context.Background
	}
	slots := jobs.NewSlots(cfg.Concurrency)
	cfg.BaseContext = func() context.Context {
		return context.WithValue(own.BaseContext(), slotsKey{}, slots)
	}
	return cfg
}

// notRun finds the NotRunError in err, nil if there is none.
func notRun(err error) *NotRunError {
	e, _ := errors.AsType[*NotRunError](err)
	return e
}
