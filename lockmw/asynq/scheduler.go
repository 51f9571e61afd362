package asynqmw

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// ofScheduler is what a leader's lock is called, before its name. It is no other kind of scheduled
// work's, or a job would wait for a leader of its name, which leads for as long as its process
// lives. Do not change it: old and new programs would run the same tick twice.
const ofScheduler = "asynq-scheduler"

// leadPause is how long a new leader waits before it starts its scheduler: longer than clocks
// differ, so that it does not enqueue a tick that the leader before it has.
const leadPause = time.Second

// RunScheduler runs an asynq scheduler in one of all the processes that call it with the same
// name: the leader. The others stand by, so that each task is enqueued once a tick however
// many processes have the schedule. One takes over in a moment when the leader returns, or
// after renewer.Config.TTL when it has died.
//
// It is for the schedules that an asynq scheduler has anyway, where a tick in a change of leader
// may be lost. A schedule that must lose none belongs in a job of package cronmw, which takes its
// ticks one by one and calls [EnqueueOnce].
//
// build returns a scheduler with its entries registered, an *asynq.Scheduler or an
// *asynq.PeriodicTaskManager, and is called anew each time that this process is elected, since an
// asynq scheduler can't be started twice. It is called a second after that: so no tick is enqueued
// twice if clocks differ by less. It may wait for longer itself. The scheduler is shut down when
// ctx ends, or when the lead is lost, before another process can have it; then this one stands by
// again.
//
// RunScheduler returns when ctx has ended and the scheduler is shut down, with ctx's
// error; or with the error of build or of Start, or what standing by longer would not mend:
// [renewer.ErrConfig], [renewer.ErrName], [renewer.ErrShutdown], [renewer.ErrRejected].
func RunScheduler[S interface {
	Start() error
	Shutdown()
}](
	ctx context.Context, k *renewer.Keeper, name string, build func() (S, error),
) error {
	if k == nil || build == nil {
		return fmt.Errorf("%w: RunScheduler needs a keeper (renewer.New) and a function that "+
			"makes the scheduler", renewer.ErrConfig)
	}
	key := lockmw.Key(ofScheduler, name)
	if err := renewer.CheckName(key); err != nil {
		return err
	}
	return lockmw.RunWhileHeld(ctx, k, key, func(ctx context.Context) error {
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
