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

// EnqueueOnce enqueues the task of a job's tick unless a call has done so
// before, on any node, and returns nil if the task is there. due is the instant
// at which the tick was due. So a job of package cronmw enqueues one task a
// tick, though it may run again:
//
//	run := cronmw.Current(ctx)
//	err := asynqmw.EnqueueOnce(ctx, client, run.Job, run.Due, asynq.NewTask("report", nil))
//
// The task's ID decides, such as "report:nightly:20260101T020000Z", for its
// asynq.Retention after it was done, a day by default. Let that exceed the time
// in which a tick may be tried again.
//
// The error is [renewer.ErrConfig] if an argument is missing, or if opts have
// asynq.TaskID, asynq.Unique or asynq.Group, which the task must not have
// either. It may be called again.
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
	opts = slices.Concat([]asynq.Option{asynq.Retention(24 * time.Hour)}, opts,
		[]asynq.Option{asynq.TaskID(id)})
	_, err := client.EnqueueContext(ctx, task, opts...)
	if err == nil || errors.Is(err, asynq.ErrTaskIDConflict) {
		return nil
	}
	return fmt.Errorf("lockbeat: enqueuing the task of %q due at %v: %w", job, due, err)
}

// ofScheduler is what a leader's lock is called, before its name. It is no
// other kind of scheduled work's, or a job would wait for a leader of its name,
// which leads for as long as its process lives. Do not change it: old and new
// programs would run the same tick twice.
const ofScheduler = "asynq-scheduler"

// leadPause is how long a new leader waits before it starts its scheduler:
// longer than clocks differ, so that it does not enqueue a tick that the leader
// before it has.
const leadPause = time.Second

// RunScheduler runs an asynq scheduler in one of all the processes that call it
// with the same name, by lockmw.Lead: the others stand by. A tick in a change
// of leader may be lost: where none may, let a job of package cronmw call
// [EnqueueOnce].
//
// build returns a scheduler with its entries registered, an *asynq.Scheduler or an
// *asynq.PeriodicTaskManager. It is called a second after each election of this process: so no
// tick is enqueued twice if clocks differ by less. The scheduler is shut down before another leads.
//
// RunScheduler returns as lockmw.Lead does, or with an error of build or of
// Start. The lock's name is lockmw.Key("asynq-scheduler", name).
func RunScheduler[S interface {
	Start() error
	Shutdown()
}](ctx context.Context, k *renewer.Keeper, name string, build func() (S, error)) error {
	if k == nil || build == nil {
		return fmt.Errorf("%w: RunScheduler needs a keeper (renewer.New) and a function that "+
			"makes the scheduler", renewer.ErrConfig)
	}
	return lockmw.Lead(ctx, k, lockmw.Key(ofScheduler, name), func(ctx context.Context) error {
		select {
		case <-time.After(leadPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		s, err := build()
		if err != nil {
			return fmt.Errorf("lockbeat: making the scheduler of %q: %w", name, err)
		}
		if err := s.Start(); err != nil {
			return fmt.Errorf("lockbeat: starting the scheduler of %q: %w", name, err)
		}
		<-ctx.Done()
		s.Shutdown()
		return context.Cause(ctx)
	}, lockmw.Operation(name))
}
