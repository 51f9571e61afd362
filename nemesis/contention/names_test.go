package contention_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// quiet is an asynq scheduler without entries.
type quiet struct{ started chan struct{} }

func (q quiet) Start() error { close(q.started); return nil }
func (quiet) Shutdown()      {}

// A job is not skipped for ever because a scheduler, which leads for weeks, has the same name.
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
			})
		}()
		<-leads.started

		node, err := cronmw.New(ctx, k, func(context.Context, cronmw.Tick) {})
		require.NoError(t, err)
		job, err := node.Job(name, cronmw.Every(time.Minute), func(context.Context) error {
			return nil
		})
		require.NoError(t, err)
		<-time.After(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		require.Equal(t, cronmw.OutcomeRan, job.Fire(ctx).Outcome, "beside the scheduler")

		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.NoError(t, k.Shutdown(t.Context()))
	})
}
