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

// EnqueueOnce enqueues the task of a job's tick unless a call has done so before, on this node or
// another. due is the instant at which the tick was due, the same on every node. It returns nil if
// the task is there, and may be called again after any error: asynq refuses a second task with the
// same ID, such as "email:digest:nightly:20260101T020000Z". So a job of package cronmw that calls
// it enqueues exactly one task a tick, even if the job runs again for that tick:
//
//	run := cronmw.Current(ctx)
//	err := asynqmw.EnqueueOnce(ctx, client, run.Job, run.Due, asynq.NewTask("report", nil))
//
// The ID is taken for as long as asynq has the task: until its asynq.Retention is over, a day after
// it was done unless opts say otherwise (what asynq.NewTask was given does not count). An archived
// task keeps it for 90 days at most; one that is deleted, or that a copy has taken the
// place of, no longer. Let the Retention exceed the time in which a tick may be tried again. Each
// queue has IDs of its own.
//
// The error is [renewer.ErrConfig] if the client, the task, the job or the instant is missing, or
// if opts have asynq.TaskID, asynq.Unique or asynq.Group (the task must not have the latter two
// either). Any other error is asynq's. It may be called concurrently.
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

// ofScheduler is what a leader's lock is called, before its name. It is no other kind of scheduled
// work's, or a job would wait for a leader of its name, which leads for as long as its process
// lives. Do not change it: old and new programs would run the same tick twice.
const ofScheduler = "asynq-scheduler"

// leadPause is how long a new leader waits before it starts its scheduler: longer than clocks
// differ, so that it does not enqueue a tick that the leader before it has.
const leadPause = time.Second

// RunScheduler runs an asynq scheduler in one of all the processes that call it with the same name:
// the leader. The others stand by, so that each task is enqueued once a tick. One takes over in a
// moment when the leader returns, or after renewer.Config.TTL when it has died. A tick in a change
// of leader may be lost: where none may, let a job of package cronmw call [EnqueueOnce].
//
// build returns a scheduler with its entries registered, an *asynq.Scheduler or an
// *asynq.PeriodicTaskManager, and is called anew each time that this process is elected, since an
// asynq scheduler can't be started twice. It is called a second after that: so no tick is enqueued
// twice if clocks differ by less. It may wait for longer itself. The scheduler is shut down when
// ctx ends, or when the lead is lost, before another process can have it; then this one stands by.
//
// RunScheduler returns when ctx has ended and the scheduler is shut down, with ctx's error; or with
// the error of build or of Start, or what standing by longer would not mend: [renewer.ErrConfig],
// [renewer.ErrName], [renewer.ErrShutdown], [renewer.ErrRejected].
func RunScheduler[S interface {
	Start() error
	Shutdown()
}](ctx context.Context, k *renewer.Keeper, name string, build func() (S, error)) error {
	if k == nil || build == nil {
		return fmt.Errorf("%w: RunScheduler needs a keeper (renewer.New) and a function that "+
			"makes the scheduler", renewer.ErrConfig)
	}
	key := lockmw.Key(ofScheduler, name)
	if err := renewer.CheckName(key); err != nil {
		return err
	}
	return lockmw.Lead(ctx, k, key, func(ctx context.Context) error {
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
