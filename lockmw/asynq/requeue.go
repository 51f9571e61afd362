package asynqmw

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/hibiken/asynq"
)

// originHeader is the header of a copy that [Requeue] made, and of
// copies of it: the ID of the task as it was first enqueued.
const originHeader = "Lockbeat-Origin"

// requeue enqueues a copy of the task and then drops the original. It tries for as
// long as the task has time, and never goes back to waiting for the lock, not even
// if an error comes back: the copy may have been taken all the same, and then both
// would run. The ID is the copy's for all tries, so that asynq takes one at most.
func (a *attempt) requeue(
	ctx context.Context, delay time.Duration, why error,
) *NotRunError {
	for {
		err := a.enqueue(ctx, delay)
		if err == nil || errors.Is(err, asynq.ErrTaskIDConflict) { // an earlier try got through
			return &NotRunError{Err: why, RetryIn: delay, Copy: a.copyID}
		}
		if !a.pause(ctx, why, a.answer) {
			return &NotRunError{
				Err:      fmt.Errorf("%w; nor could a copy of the task be enqueued: %w", why, err),
				Archived: true,
			}
		}
	}
}

// enqueue leaves time to tell asynq: a client takes seconds to give up a server that is down.
func (a *attempt) enqueue(ctx context.Context, delay time.Duration) error {
	ctx, stop := context.WithDeadline(ctx, a.answer)
	defer stop()
	opts, err := a.limits(ctx)
	if err != nil {
		return err
	}
	queue, _ := asynq.GetQueueName(ctx)
	most, _ := asynq.GetMaxRetry(ctx)
	retried, _ := asynq.GetRetryCount(ctx)
	opts = append(opts,
		asynq.Queue(queue), asynq.MaxRetry(most-retried), asynq.TaskID(a.copyID),
		asynq.ProcessIn(delay),
	)
	task := asynq.NewTaskWithHeaders(a.task.Type(), a.task.Payload(), a.headers(ctx))
	_, err = a.client.EnqueueContext(ctx, task, opts...)
	return err
}

func (a *attempt) headers(ctx context.Context) map[string]string {
	headers := maps.Clone(a.task.Headers())
	if headers == nil {
		headers = make(map[string]string, 1)
	}
	if headers[originHeader] == "" {
		headers[originHeader], _ = asynq.GetTaskID(ctx)
	}
	return headers
}

// limits are what the original's producer gave it. Only asynq's Redis has them all. A handler
// sees its context's deadline: an instant that asynq keeps in whole seconds, or the end of a
// Timeout that began at some fraction of one. If a task has both, asynq rounds, and the copy gets
// the earlier one as its Deadline: it may be archived too early, but never runs too late.
func (a *attempt) limits(ctx context.Context) ([]asynq.Option, error) {
	info, err := a.original(ctx)
	if err != nil {
		return nil, err
	}
	if info != nil {
		opts := []asynq.Option{asynq.Timeout(info.Timeout), asynq.Retention(info.Retention)}
		if !info.Deadline.IsZero() {
			opts = append(opts, asynq.Deadline(info.Deadline))
		}
		return opts, nil
	}
	if a.deadline.Nanosecond() == 0 && !a.deadline.IsZero() {
		return []asynq.Option{asynq.Deadline(a.deadline)}, nil
	}
	// Rounded up: asynq took the time a moment before the attempt did.
	return []asynq.Option{asynq.Timeout((a.left + time.Second - 1).Truncate(time.Second))}, nil
}

// original is the task as asynq has it: nil if the inspector of InLine does not have it, as there
// is none, or it is for another Redis. An inspector takes no context.
func (a *attempt) original(ctx context.Context) (*asynq.TaskInfo, error) {
	if a.queues == nil {
		return nil, nil //nolint:nilnil // see above
	}
	queue, _ := asynq.GetQueueName(ctx)
	id, _ := asynq.GetTaskID(ctx)
	type answer struct {
		info *asynq.TaskInfo
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		info, err := a.queues.find(queue, id)
		answers <- answer{info, err}
	}()
	select {
	case got := <-answers:
		return got.info, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
