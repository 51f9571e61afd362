package asynqmw

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw/jobs"
)

// originHeader is the header of a copy, and of copies of it: the ID of the task
// as it was first enqueued.
const originHeader = "Lockbeat-Origin"

// copier returns what enqueues a copy of a task on its last attempt, of which
// asynq takes one by an ID at most. It makes none of a task that its Redis does
// not have: the copy would be in another Redis than the server's.
func (r *taskRedis) copier(
	of jobs.Task,
) func(ctx context.Context, id string, in time.Duration) error {
	return func(ctx context.Context, copyID string, in time.Duration) error {
		info, err := r.running(ctx, of)
		if err == nil {
			headers := map[string]string{originHeader: of.ID}
			maps.Copy(headers, info.Headers) // the original may be a copy
			_, err = r.open().tasks.EnqueueContext(ctx,
				asynq.NewTaskWithHeaders(info.Type, info.Payload, headers),
				asynq.Queue(of.Queue), asynq.MaxRetry(info.MaxRetry-info.Retried),
				asynq.TaskID(copyID), asynq.ProcessIn(in), asynq.Timeout(info.Timeout),
				asynq.Deadline(info.Deadline), asynq.Retention(info.Retention))
		}
		if err == nil || errors.Is(err, asynq.ErrTaskIDConflict) { // an earlier try got through
			return nil
		}
		return fmt.Errorf("nor could a copy of the task be enqueued: %w", err)
	}
}

// running is a task that a worker of the server has, as asynq has it. The error
// is errOtherRedis if there is none. (An inspector takes no context.)
func (r *taskRedis) running(ctx context.Context, task jobs.Task) (*asynq.TaskInfo, error) {
	type answer struct {
		info *asynq.TaskInfo
		err  error
	}
	found := make(chan answer, 1)
	go func() {
		info, err := r.find(task)
		if err == nil && info == nil {
			err = errOtherRedis
		}
		found <- answer{info, err}
	}()
	select {
	case a := <-found:
		return a.info, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
