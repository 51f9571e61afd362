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

// onceRetention is for how long asynq keeps a task of [EnqueueOnce] after it is done, unless
// asynq.Retention says otherwise.
const onceRetention = 24 * time.Hour

// EnqueueOnce enqueues the task of a job's tick unless a call has done so before, on this node or
// another. due is the instant at which the tick was due, the same on every node. It returns nil if
// the task is there, and may be called again after any error: asynq refuses a second task with the
// same ID, such as "email:digest:nightly:20260101T020000Z". So a job of package cronmw that calls
// it enqueues exactly one task a tick, even if the job runs again for that tick. In such a job
// cronmw.Current(ctx) has the job's name and due:
//
//	run := cronmw.Current(ctx)
//	err := asynqmw.EnqueueOnce(ctx, client, run.Job, run.Due, asynq.NewTask("report", nil))
//
// The ID is taken for as long as asynq has the task. That is until its asynq.Retention is over,
// which begins when it is done: 24 h unless opts say otherwise (what
// asynq.NewTask was given does not count). An archived task keeps it for 90 days at most. A task
// that is deleted, or that [Requeue] has put a copy in the place of, keeps it no longer. Let the
// Retention exceed the time in which a tick may be tried again. Each queue has IDs of its own.
//
// The error is [renewer.ErrConfig] if the client, the task, the job or the instant is missing, or
// if opts have asynq.TaskID, asynq.Unique or asynq.Group. The task must not have been given Unique
// or Group by asynq.NewTask either. Any other error is asynq's. It may be called concurrently.
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
	id := lockmw.Key(task.Type(), job, due.UTC().Format("20060102T150405.999999999Z"))
	_, err := client.EnqueueContext(ctx, task, slices.Concat(
		[]asynq.Option{asynq.Retention(onceRetention)}, opts,
		[]asynq.Option{asynq.TaskID(id)})...)
	if err == nil || errors.Is(err, asynq.ErrTaskIDConflict) {
		return nil
	}
	return fmt.Errorf("lockbeat: enqueuing the task of %q due at %v: %w", job, due, err)
}
