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

// original is a task on its last attempt, and what the context of its handler says of it.
type original struct {
	*settings

	task        *asynq.Task
	queue, id   string
	most, spent int           // attempts
	deadline    time.Time     // when asynq times it out
	left        time.Duration // until then, when its handler was called
}

func (s *settings) original(ctx context.Context, task *asynq.Task) *original {
	o := &original{settings: s, task: task}
	o.queue, _ = asynq.GetQueueName(ctx)
	o.id, _ = asynq.GetTaskID(ctx)
	o.most, _ = asynq.GetMaxRetry(ctx)
	o.spent, _ = asynq.GetRetryCount(ctx)
	o.deadline, _ = ctx.Deadline()
	o.left = time.Until(o.deadline)
	return o
}

// copy enqueues a copy of it, of which asynq takes one by that ID at most.
func (o *original) copy(ctx context.Context, id string, in time.Duration) error {
	opts, err := o.limits(ctx)
	if err == nil {
		task := asynq.NewTaskWithHeaders(o.task.Type(), o.task.Payload(), o.headers())
		_, err = o.client.EnqueueContext(ctx, task, append(opts,
			asynq.Queue(o.queue), asynq.MaxRetry(o.most-o.spent), asynq.TaskID(id),
			asynq.ProcessIn(in))...)
	}
	if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) { // an earlier try got through
		return fmt.Errorf("nor could a copy of the task be enqueued: %w", err)
	}
	return nil
}

func (o *original) headers() map[string]string {
	headers := maps.Clone(o.task.Headers())
	if headers == nil {
		headers = make(map[string]string, 1)
	}
	if headers[originHeader] == "" {
		headers[originHeader] = o.id
	}
	return headers
}

// limits are what the original's producer gave it. Only asynq's Redis has them all. A handler
// sees its context's deadline: an instant that asynq keeps in whole seconds, or the end of a
// Timeout that began at some fraction of one. If a task has both, asynq rounds, and the copy gets
// the earlier one as its Deadline: it may be archived too early, but never runs too late.
func (o *original) limits(ctx context.Context) ([]asynq.Option, error) {
	info, err := o.info(ctx)
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
	if o.deadline.Nanosecond() == 0 && !o.deadline.IsZero() {
		return []asynq.Option{asynq.Deadline(o.deadline)}, nil
	}
	// Rounded up: asynq took the time a moment before the handler did.
	return []asynq.Option{asynq.Timeout((o.left + time.Second - 1).Truncate(time.Second))}, nil
}

// info is the task as asynq has it: nil if the inspector of InLine does not have it, as there is
// none, or it is for another Redis. An inspector takes no context.
func (o *original) info(ctx context.Context) (*asynq.TaskInfo, error) {
	if o.queues == nil {
		return nil, nil //nolint:nilnil // see above
	}
	type answer struct {
		info *asynq.TaskInfo
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		info, err := o.queues.find(o.queue, o.id)
		answers <- answer{info, err}
	}()
	select {
	case got := <-answers:
		return got.info, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
