package asynqmw

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// DefaultOnceRetention is for how long asynq keeps a task of [EnqueueOnce] after it is done,
// unless asynq.Retention says otherwise.
const DefaultOnceRetention = 24 * time.Hour

// EnqueueOnce enqueues the task of a job's tick, which was due at that instant, if no call has done
// so before, on whichever node. It returns nil if the task is there, and may be called again after
// any error, since asynq refuses a second task of the same ID: [OnceID]. So a job whose ticks are
// tried again until they succeed, as by package cronmw, enqueues exactly one task a tick.
//
// asynq knows the ID as long as it has the task: until asynq.Retention has passed since it was done,
// [DefaultOnceRetention] unless opts say otherwise (those of asynq.NewTask don't count), or 90 days
// if it was archived. Let that exceed the time after which a tick may still be tried again. The ID
// is free as soon as the task is deleted, and when [Requeue] puts a copy in its place. Each queue
// has IDs of its own.
//
// The error is [renewer.ErrConfig] if the client, the task, the job or the instant is missing, or
// if opts have asynq.TaskID, asynq.Unique or asynq.Group, which a task made by asynq.NewTask must
// not have either. Otherwise it is asynq's. It may be called concurrently.
func EnqueueOnce(
	ctx context.Context, client *asynq.Client, job string, due time.Time, task *asynq.Task,
	opts ...asynq.Option,
) error {
	if client == nil || task == nil || job == "" || due.IsZero() {
		return fmt.Errorf("%w: EnqueueOnce needs a client, a task, the job's name and the "+
			"instant at which its tick was due", renewer.ErrConfig)
	}
	for _, o := range opts {
		switch o.Type() {
		case asynq.TaskIDOpt, asynq.UniqueOpt, asynq.GroupOpt:
			return fmt.Errorf("%w: EnqueueOnce can't take %v: the ID of the tick decides whether "+
				"the task is there", renewer.ErrConfig, o)
		}
	}
	_, err := client.EnqueueContext(ctx, task, slices.Concat(
		[]asynq.Option{asynq.Retention(DefaultOnceRetention)}, opts,
		[]asynq.Option{asynq.TaskID(OnceID(task.Type(), job, due))})...)
	if err == nil || errors.Is(err, asynq.ErrTaskIDConflict) {
		return nil
	}
	return fmt.Errorf("lockbeat: enqueuing the task of %q due at %v: %w", job, due, err)
}

// OnceID returns the ID of the task that [EnqueueOnce] enqueues, such as
// "email:digest:nightly:20260101T020000Z".
func OnceID(typ, job string, due time.Time) string {
	return lockmw.Key(typ, job, due.UTC().Format("20060102T150405.999999999Z"))
}
