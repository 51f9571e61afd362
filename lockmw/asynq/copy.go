package asynqmw

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/hibiken/asynq"
)

// originHeader is the header of a copy (see [NoCopies]), and of copies of it: the ID of the task
// as it was first enqueued.
const originHeader = "Lockbeat-Origin"

// copier returns what enqueues a copy of a task on its last attempt, of which asynq takes one by an
// ID at most. called is the context with which the handler was called.
func (r *taskRedis) copier(
	called context.Context, task *asynq.Task,
) func(ctx context.Context, id string, in time.Duration) error {
	deadline, _ := called.Deadline()
	left := time.Until(deadline)
	return func(ctx context.Context, copyID string, in time.Duration) error {
		opts, err := r.limits(ctx, deadline, left)
		if err == nil {
			queue, _ := asynq.GetQueueName(ctx)
			id, _ := asynq.GetTaskID(ctx)
			most, _ := asynq.GetMaxRetry(ctx)
			retried, _ := asynq.GetRetryCount(ctx)
			headers := map[string]string{originHeader: id}
			maps.Copy(headers, task.Headers()) // the original may be a copy
			again := asynq.NewTaskWithHeaders(task.Type(), task.Payload(), headers)
			_, err = r.producer().EnqueueContext(ctx, again, append(opts, asynq.Queue(queue),
				asynq.MaxRetry(most-retried), asynq.TaskID(copyID), asynq.ProcessIn(in))...)
		}
		if err == nil || errors.Is(err, asynq.ErrTaskIDConflict) { // an earlier try got through
			return nil
		}
		return fmt.Errorf("nor could a copy of the task be enqueued: %w", err)
	}
}

// limits are what the original's producer gave it. Only asynq's Redis has them all. A handler
// sees its context's deadline: an instant that asynq keeps in whole seconds, or the end of a
// Timeout that began at some fraction of one. If a task has both, asynq rounds, and the copy gets
// the earlier one as its Deadline: it may be archived too early, but never runs too late.
func (r *taskRedis) limits(
	ctx context.Context, deadline time.Time, left time.Duration,
) ([]asynq.Option, error) {
	info, err := r.info(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case info != nil:
	case deadline.Nanosecond() == 0:
		info = &asynq.TaskInfo{Deadline: deadline}
	default: // rounded up: asynq took the time a moment before the handler did
		info = &asynq.TaskInfo{Timeout: (left + time.Second - 1).Truncate(time.Second)}
	}
	return []asynq.Option{
		asynq.Timeout(info.Timeout), asynq.Deadline(info.Deadline), asynq.Retention(info.Retention),
	}, nil
}

// info is the task as asynq has it: nil if there is no line, or Redis does not have it. An inspector takes no context.
func (r *taskRedis) info(ctx context.Context) (*asynq.TaskInfo, error) {
	if !r.inspects {
		return nil, nil //nolint:nilnil // see above
	}
	queue, _ := asynq.GetQueueName(ctx)
	id, _ := asynq.GetTaskID(ctx)
	found := make(chan func() (*asynq.TaskInfo, error), 1)
	go func() {
		info, err := r.find(queue, id)
		found <- func() (*asynq.TaskInfo, error) { return info, err }
	}()
	select {
	case answer := <-found:
		return answer()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
