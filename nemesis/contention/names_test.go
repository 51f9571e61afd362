package contention_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/lockmw/cronmw/gocronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// quiet is an asynq scheduler without entries.
type quiet struct{ started chan struct{} }

func (q quiet) Start() error { close(q.started); return nil }
func (quiet) Shutdown()      {}

// A job is not skipped for ever because an elector, which leads for weeks, has the same name.
func TestNoTwoKindsOfScheduledWorkShareALock(t *testing.T) {
	t.Parallel()
	const name = "reports"
	synctest.Test(t, func(t *testing.T) {
		k, err := renewer.New(memory.New(), renewer.Config{TTL: ttl})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		leads := quiet{make(chan struct{})}
		ended := make(chan error)
		go func() {
			ended <- asynqmw.RunScheduler(ctx, k, name, func() (quiet, error) {
				return leads, nil
			}, asynqmw.Settle(0))
		}()
		<-leads.started

		elector, err := gocronmw.NewElector(ctx, k, name, gocronmw.Settle(0))
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, elector.IsLeader(ctx), "beside an asynq scheduler")

		locker, err := gocronmw.NewLocker(k, gocronmw.Config{})
		require.NoError(t, err)
		scheduler, err := gocron.NewScheduler()
		require.NoError(t, err)
		running, end := make(chan struct{}), make(chan struct{})
		_, err = locker.NewJob(scheduler, gocron.DurationJob(time.Hour), gocron.NewTask(func() {
			running <- struct{}{}
			<-end
		}), gocron.WithName(name), gocron.WithStartAt(gocron.WithStartImmediately()))
		require.NoError(t, err)
		scheduler.Start()
		<-running // beside an elector

		node, err := cronmw.New(ctx, k,
			cronmw.Config{OnTick: func(context.Context, cronmw.Tick) {}})
		require.NoError(t, err)
		for _, opts := range [][]cronmw.Option{nil, {cronmw.Wait(time.Minute)}} {
			job, err := node.Job(name, cronmw.Every(time.Minute), func(context.Context) error {
				return nil
			}, opts...)
			require.NoError(t, err)
			<-time.After(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
			require.Equal(t, cronmw.OutcomeRan, job.Fire(ctx).Outcome, "beside all of them")
			node.Forget(name)
		}

		close(end)
		// gocron's Shutdown spins until its jobs end, and a bubble's time stands still meanwhile.
		synctest.Wait()
		require.NoError(t, scheduler.Shutdown())
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.NoError(t, elector.Close())
		require.NoError(t, k.Shutdown(t.Context()))
	})
}
