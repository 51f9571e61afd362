package libraries_test

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/testutil/embedded"
)

// at is a tick each hour, with one at this instant.
type at time.Time

func (a at) Next(t time.Time) time.Time {
	before := time.Time(a).Add(-1000 * time.Hour)
	return before.Add(t.Sub(before).Truncate(time.Hour) + time.Hour)
}

// ticks are what an observer hears of.
type ticks struct {
	renewer.NopObserver
	runs chan renewer.Run
}

func (t ticks) Ran(_ context.Context, e renewer.Run) {
	switch e.Outcome {
	case renewer.OutcomeAdded, renewer.OutcomeNotRun: // it may stand by for its own run
	default:
		t.runs <- e
	}
}

// asynq's Redis is away at the tick, and a deployment stops the only node meanwhile. The tick's
// task is enqueued all the same: by the node that starts then.
func TestADeploymentLosesNoTickWhileAsynqsRedisIsAway(t *testing.T) {
	t.Parallel()
	redis := embedded.Run(t)
	redis.Mini().SetError("LOADING it is away")
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: redis.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	enqueue, store := enqueueReport(client), memory.New()
	due := time.Now().Truncate(time.Millisecond)

	begun, told := make(chan int, 10), ticks{runs: make(chan renewer.Run, 10)}
	start := func(i int) (*cronmw.Job, context.CancelFunc) {
		k, err := renewer.New(store, renewer.Config{TTL: renewer.DefaultTTL, Observer: told})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		t.Cleanup(func() { stop(); require.NoError(t, k.Shutdown(context.Background())) })
		node, err := cronmw.New(ctx, k)
		require.NoError(t, err)
		job, err := node.Job("nightly", at(due), func(ctx context.Context) error {
			begun <- i
			return enqueue(ctx)
		}, cronmw.TakeOver(3), cronmw.RunIfMissed())
		require.NoError(t, err)
		return job, stop
	}
	job, stop := start(1)
	go job.Run() // as its scheduler does
	assert.Equal(t, 1, <-begun)
	stop()
	assert.Equal(t, renewer.OutcomeCut, (<-told.runs).Outcome)
	start(2)
	assert.Equal(t, 2, <-begun)
	redis.Mini().SetError("")
	assert.Equal(t, renewer.OutcomeRan, (<-told.runs).Outcome)

	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: redis.Addr()})
	t.Cleanup(func() { _ = inspector.Close() })
	tasks, err := inspector.ListPendingTasks("default")
	require.NoError(t, err)
	require.Len(t, tasks, 1)
	assert.Equal(t, "report:nightly:"+due.UTC().Format("20060102T150405.999Z"), tasks[0].ID)
}
