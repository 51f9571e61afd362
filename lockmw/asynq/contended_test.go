package asynqmw_test

import (
	"fmt"
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

// The locks' server is down: tasks come back, and one on its last attempt waits.
func TestLocksThatCantBeHad(t *testing.T) {
	t.Parallel()
	queues, locks := newEnv(t), newEnv(t)
	var r record
	k := locks.keeper()
	locks.Kill()
	cfg := workers(4)
	cfg.ShutdownTimeout = 100 * time.Millisecond
	server := queues.serve(k, r.handler(0, retriesIn), cfg, alone...)
	spare, last := queues.enqueue("u1"), queues.enqueue("u2", asynq.MaxRetry(0))
	info := queues.awaitRefused(spare)
	assert.Zero(t, info.Retried)
	assert.Contains(t, info.LastErr, "lock store unavailable")
	queues.awaitState(last, asynq.TaskStateActive)
	server.Shutdown()
	assert.Equal(t, asynq.TaskStatePending, queues.await(last, isThere).State,
		"put back by the server's shutdown")
	assert.Empty(t, r.ran())
	require.NoError(t, locks.Restart())
	queues.serve(locks.keeper(), r.handler(0, retriesIn), cfg, alone...)
	queues.awaitDone(2)
}

// On a server without the Config of Configure, by the locks of another or of a
// test, each refusal would use up an attempt: no task runs, and the operator
// hears why, once.
func TestNoTaskRunsOnAServerThatIsNotConfigured(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	heard := faults{told: make(chan renewer.Fault, 4)}
	var r record
	k := e.keeper(func(cfg *renewer.Config) { cfg.Observer = heard })
	cfg := workers(4)
	cfg.TaskCheckInterval = tick // as that of Configure
	e.start(r.handler(0)(asynqmw.ForTest(k)), cfg)
	for range 2 {
		info := e.awaitRefused(e.enqueue("u1"))
		assert.Equal(t, 1, info.Retried)
		assert.Contains(t, info.LastErr, "asynqmw.Configure")
	}
	assert.Empty(t, r.ran())
	require.Len(t, heard.told, 1)
	told := <-heard.told
	assert.Equal(t, "configure asynq", told.Doing)
	assert.Empty(t, told.Name, "all tasks are concerned")
	require.ErrorIs(t, told.Err, renewer.ErrConfig)
}
