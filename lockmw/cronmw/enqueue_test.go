package cronmw_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/testutil/embedded"
)

// asynq's Redis is away at the tick, and a deployment stops both nodes meanwhile, one after the
// other. The tick's task is enqueued all the same: by the node that starts then.
func TestADeploymentLosesNoTickWhileAsynqsRedisIsAway(t *testing.T) {
	t.Parallel()
	redis := embedded.Run(t)
	redis.Mini().SetError("LOADING it is away")
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: redis.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	enqueue, store := enqueueReport(client), memory.New()
	due := time.Now().Add(time.Second).Truncate(time.Millisecond)
	hourly := skewed{cronmw.Every(time.Hour), due.Truncate(time.Hour).Sub(due)} // with that tick

	begun := make(chan int, 10) // nodes
	stops := make([]context.CancelFunc, 3)
	start := func(i int) *cronmw.Job {
		k, err := renewer.New(store, renewer.Config{TTL: renewer.DefaultTTL, Node: fmt.Sprint(i)})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		stops[i] = stop
		node, err := cronmw.New(ctx, k, cronmw.Config{OnTick: new(log).add})
		require.NoError(t, err)
		job, err := node.Job("nightly", hourly, func(ctx context.Context) error {
			begun <- i
			return enqueue(ctx)
		}, cronmw.TakeOver(3), cronmw.RunIfMissed())
		require.NoError(t, err)
		t.Cleanup(func() { stop(); require.NoError(t, k.Shutdown(context.Background())) })
		return job
	}
	begins := func() int {
		select {
		case i := <-begun:
			return i
		case <-time.After(renewer.DefaultTTL):
			require.Fail(t, "no node runs the tick")
			return 0
		}
	}
	for i := range 2 {
		go start(i).Run() // as its scheduler does
	}
	first := begins()
	stops[first]()
	assert.Equal(t, 1-first, begins())
	stops[1-first]()
	k, err := renewer.New(store, renewer.Config{TTL: renewer.DefaultTTL})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Shutdown(context.Background())) })
	result := func() cronmw.Result {
		last, err := cronmw.History(t.Context(), k, "nightly")
		require.NoError(t, err)
		return last.Result
	}
	require.Eventually(t, func() bool { return result() == cronmw.ResultCut },
		renewer.DefaultTTL, 10*time.Millisecond, "it has stopped")
	start(2)
	assert.Equal(t, 2, begins())

	redis.Mini().SetError("")
	require.Eventually(t, func() bool { return result() == cronmw.ResultSucceeded },
		30*time.Second, 10*time.Millisecond)
	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: redis.Addr()})
	t.Cleanup(func() { _ = inspector.Close() })
	tasks, err := inspector.ListPendingTasks("default")
	require.NoError(t, err)
	require.Len(t, tasks, 1)
	assert.Equal(t, asynqmw.OnceID("report", "nightly", due), tasks[0].ID)
}
