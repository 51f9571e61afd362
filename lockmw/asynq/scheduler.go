package asynqmw

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/schedulers"
	"github.com/lockbeat/lockbeat/renewer"
)

// DefaultSettle is how long a new leader waits before it starts its
// scheduler, unless [Settle] says otherwise.
const DefaultSettle = schedulers.DefaultSettle

// Scheduler is an [asynq.Scheduler] or an [asynq.PeriodicTaskManager].
type Scheduler interface {
	Start() error
	Shutdown()
}

var (
	_ Scheduler = (*asynq.Scheduler)(nil)
	_ Scheduler = (*asynq.PeriodicTaskManager)(nil)
)

// SchedulerOption says how [RunScheduler] leads.
type SchedulerOption func(*schedulerSettings)

type schedulerSettings struct{ settle schedulers.Settle }

// Settle is how long a new leader waits before it starts its scheduler: longer than
// clocks differ, so that it does not enqueue a tick that the leader before it has.
// Default [DefaultSettle] (1 s); 0 for not at all. Negative durations are refused.
func Settle(d time.Duration) SchedulerOption {
	return func(s *schedulerSettings) { s.settle = schedulers.Settle(d) }
}

// RunScheduler runs an asynq scheduler in one of all the processes that call it with the same
// name: the leader. The others stand by, so that each task is enqueued once a tick however
// many processes have the schedule. One takes over in a moment when the leader returns, or
// after renewer.Config.TTL when it has died.
//
// It is for the schedules that an asynq scheduler has anyway, where a tick in a change of leader
// may be lost. A schedule that must lose none belongs in a job of package cronmw, which takes its
// ticks one by one and calls [EnqueueOnce].
//
// build returns a scheduler with its entries registered, and is called anew each time that this
// process is elected, since an asynq scheduler can't be started twice. It is shut down when ctx
// ends, or when the lead is lost, before another process can have it; then this one stands by
// again. RunScheduler returns when ctx has ended and the scheduler is shut down, with ctx's
// error; or with the error of build or of Start, or what standing by longer would not mend:
// [renewer.ErrConfig], [renewer.ErrName], [renewer.ErrShutdown], [renewer.ErrRejected].
func RunScheduler[S Scheduler](
	ctx context.Context, k *renewer.Keeper, name string, build func() (S, error),
	opts ...SchedulerOption,
) error {
	set := schedulerSettings{settle: schedulers.Settle(DefaultSettle)}
	for _, o := range opts {
		o(&set)
	}
	if k == nil || build == nil {
		return fmt.Errorf("%w: RunScheduler needs a keeper (renewer.New) and a function that "+
			"makes the scheduler", renewer.ErrConfig)
	}
	key := lockmw.Key(schedulers.OfScheduler, name)
	if err := errors.Join(set.settle.Check(), renewer.CheckName(key)); err != nil {
		return err
	}
	return lockmw.RunWhileHeld(ctx, k, key, func(ctx context.Context) error {
		if err := set.settle.Pass(ctx); err != nil {
			return err
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
