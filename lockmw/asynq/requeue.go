package asynqmw

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw"
)

// OriginHeader is the header of a copy that [Requeue] made, and of
// copies of it: the ID of the task as it was first enqueued.
const OriginHeader = "Lockbeat-Origin"

// requeue enqueues a copy of the task and then drops the original. It tries for as
// long as the task has time, and never goes back to waiting for the lock, not even
// if an error comes back: the copy may have been taken all the same, and then both
// would run. The ID is the copy's for all tries, so that asynq takes one at most.
func (a *attempt) requeue(
	ctx context.Context, id string, delay time.Duration, why error,
) *NotRunError {
	task := asynq.NewTaskWithHeaders(a.task.Type(), a.task.Payload(), a.headers(ctx))
	opts := append(a.options(ctx), asynq.TaskID(id), asynq.ProcessIn(delay))
	for {
		err := a.enqueue(ctx, task, opts)
		if err == nil || errors.Is(err, asynq.ErrTaskIDConflict) { // an earlier try got through
			return &NotRunError{Err: why, RetryIn: delay, Late: a.late(), Copy: id}
		}
		if !pause(ctx, a.delay(why), a.answer) {
			return &NotRunError{
				Err:      fmt.Errorf("%w; nor could a copy of the task be enqueued: %w", why, err),
				Archived: true,
			}
		}
	}
}

// enqueue leaves time to tell asynq: a client takes seconds to give up a server that is down.
func (a *attempt) enqueue(ctx context.Context, task *asynq.Task, opts []asynq.Option) error {
	if deadline, ok := ctx.Deadline(); ok {
		limited, stop := context.WithDeadline(ctx, lockmw.AnswerBy(deadline))
		defer stop()
		ctx = limited
	}
	_, err := a.client.EnqueueContext(ctx, task, opts...)
	return err
}

func (a *attempt) headers(ctx context.Context) map[string]string {
	headers := maps.Clone(a.task.Headers())
	if headers == nil {
		headers = make(map[string]string, 1)
	}
	if headers[OriginHeader] == "" {
		headers[OriginHeader], _ = asynq.GetTaskID(ctx)
	}
	return headers
}

func (a *attempt) options(ctx context.Context) []asynq.Option {
	opts := append([]asynq.Option{asynq.Timeout(ceil(a.left))}, a.extra...)
	queue, _ := asynq.GetQueueName(ctx)
	most, _ := asynq.GetMaxRetry(ctx)
	retried, _ := asynq.GetRetryCount(ctx)
	return slices.Concat(opts, []asynq.Option{asynq.Queue(queue), asynq.MaxRetry(most - retried)})
}

// ceil rounds up to what asynq counts in: it took the time a moment before the attempt did.
func ceil(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }
