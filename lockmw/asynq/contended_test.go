package asynqmw_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
)

// retriesIn is short enough for a test. asynq counts in seconds, so it mostly
// means at once.
var retriesIn = jobs.RetryIn(50 * time.Millisecond)

// By TestAdapterOfJobs those in line do.
func TestContendedTasksRunAloneAndUncounted(t *testing.T) {
	t.Parallel()
	const tasks = 20
	for name, c := range map[string]struct {
		retries int
		opts    []asynqmw.ServerOption
	}{
		"by copies":  {0, nil},
		"in no line": {25, alone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queues, locks := apart(t)
			var r record
			for range 2 {
				queues.serve(locks.keeper(), r.handler(10*time.Millisecond, retriesIn),
					workers(10), c.opts...)
			}
			for range tasks {
				queues.enqueue("u1", asynq.MaxRetry(c.retries))
			}
			queues.awaitDone(tasks)
			assert.Len(t, r.ran(), tasks)
			assert.Zero(t, r.overlaps)
			require.Eventually(t, func() bool { return len(locks.keysOf("u1")) == 0 }, soon, tick)
		})
	}
}

// Tasks that waited for busy locks, as they were told to, used to take all
// workers, so that a task whose lock was free waited for as long.
func TestAtMostHalfOfTheWorkersWait(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var r record
	var releases []func()
	holder := e.keeper()
	for i := range 4 {
		releases = append(releases, hold(t, holder, fmt.Sprint("u", i)))
	}
	e.serve(e.keeper(), r.handler(0, lockmw.Wait(time.Minute)), workers(8), alone...)
	for i := range 16 {
		e.enqueue(fmt.Sprint("u", i%4))
	}
	require.Eventually(t, func() bool {
		queue, err := e.inspector.GetQueueInfo("default")
		return err == nil && queue.Active == 4 && queue.Pending == 0
	}, soon, tick, "four wait, the others went back")
	e.awaitState(e.enqueue("free"), asynq.TaskStateCompleted)
	for _, release := range releases {
		release()
	}
	e.awaitDone(17)
}

func TestHandlerThatIgnoresItsTimeoutNeverOverlapsItsRetry(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var runs atomic.Int64
	proceed := make(chan struct{})
	end := sync.OnceFunc(func() { close(proceed) })
	defer end()
	for range 2 {
		cfg := workers(2)
		cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return 0 }
		e.serve(e.keeper(), wrap(byUser, func(context.Context, order) error {
			if runs.Add(1) == 1 {
				<-proceed
			}
			return nil
		}, retriesIn), cfg, alone...)
	}
	id := e.enqueue("u1", asynq.Timeout(time.Second))
	info := e.await(id, func(i *asynq.TaskInfo) bool {
		return i.Retried > 0 && i.LastErr != "context deadline exceeded"
	})
	assert.Contains(t, info.LastErr, "held by another owner", "while the first run goes on")
	assert.EqualValues(t, 1, runs.Load())
	end()
	info = e.awaitState(id, asynq.TaskStateCompleted)
	assert.Equal(t, 1, info.Retried, "the time-out, and nothing else")
	assert.EqualValues(t, 2, runs.Load())
}

// The locks' server is down, or the keeper is shut down before the server:
// tasks come back, and one on its last attempt waits.
func TestLocksThatCantBeHad(t *testing.T) {
	t.Parallel()
	for want, away := range map[string]func(t *testing.T, k *renewer.Keeper, locks *env){
		"lock store unavailable": func(_ *testing.T, _ *renewer.Keeper, locks *env) {
			locks.Kill()
		},
		"keeper is shut down": func(t *testing.T, k *renewer.Keeper, _ *env) {
			require.NoError(t, k.Shutdown(t.Context()))
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			queues, locks := apart(t)
			var r record
			k := locks.keeper()
			away(t, k, locks)
			cfg := workers(4)
			cfg.ShutdownTimeout = 100 * time.Millisecond
			server := queues.serve(k, r.handler(0, retriesIn), cfg, alone...)
			spare, last := queues.enqueue("u1"), queues.enqueue("u2", asynq.MaxRetry(0))
			info := queues.awaitRefused(spare)
			assert.Zero(t, info.Retried)
			assert.Contains(t, info.LastErr, want)
			queues.awaitState(last, asynq.TaskStateActive)
			server.Shutdown()
			assert.Equal(t, asynq.TaskStatePending, queues.await(last, func(*asynq.TaskInfo) bool {
				return true
			}).State, "put back by the server's shutdown")
			assert.Empty(t, r.ran())

			if want == "lock store unavailable" {
				require.NoError(t, locks.Restart())
			}
			queues.serve(locks.keeper(), r.handler(0, retriesIn), cfg, alone...)
			queues.awaitDone(2)
		})
	}
}

// On a server without the Config of Configure, by the locks of another or of a
// test, each refusal would use up an attempt: no task runs, and the operator
// hears why, once.
func TestNoTaskRunsOnAServerThatIsNotConfigured(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var heard faults
	var r record
	k := e.keeper(heard.observe)
	e.start(r.handler(0)(asynqmw.ForTest(k)), workers(4))
	for range 2 {
		info := e.awaitRefused(e.enqueue("u1"))
		assert.Equal(t, 1, info.Retried)
		assert.Contains(t, info.LastErr, "asynqmw.Configure")
	}
	assert.Empty(t, r.ran())
	told := heard.told(t)
	require.Len(t, told, 1)
	assert.Equal(t, "configure asynq", told[0].Doing)
	require.ErrorIs(t, told[0].Err, renewer.ErrConfig)
}
