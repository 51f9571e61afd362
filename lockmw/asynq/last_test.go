package asynqmw_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
)

// isGone reports whether asynq has let a task go.
func (e *env) isGone(id string) bool {
	_, err := e.inspector.GetTaskInfo("default", id)
	return errors.Is(err, asynq.ErrTaskNotFound)
}

// awaitCopy waits until a copy is all that is there, and returns it.
func (e *env) awaitCopy(of string) (copied *asynq.TaskInfo) {
	e.t.Helper()
	require.Eventually(e.t, func() bool {
		tasks, err := e.inspector.ListScheduledTasks("default")
		if err == nil && len(tasks) == 1 && e.isGone(of) {
			copied = tasks[0]
		}
		return copied != nil
	}, soon, tick)
	return copied
}

// A task has failed, and is on its last attempt now: it goes on as a copy that
// has as many attempts left, and fails no more.
func TestLastAttemptAfterAFailure(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	fails := true
	e.serve(e.keeper(), wrap(byUser, func(context.Context, order) error {
		if fails {
			fails = false
			return errReal
		}
		return nil
	}, lockmw.Refuse(), jobs.RetryIn(time.Hour)), workers(4), asynqmw.NoLine())
	id := e.parked("u1", asynq.MaxRetry(1))
	release := hold(t, e.keeper(), "u1")
	require.NoError(t, e.inspector.RunTask("default", id))
	copied := e.awaitCopy(id)
	assert.Zero(t, copied.MaxRetry)
	release()
	require.NoError(t, e.inspector.RunTask("default", copied.ID))
	e.awaitState(copied.ID, asynq.TaskStateCompleted)
	queue, err := e.inspector.GetQueueInfo("default")
	require.NoError(t, err)
	assert.Equal(t, 1, queue.FailedTotal, "the one real failure")
}

func TestCopyIsAsTheOriginal(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	release := hold(t, e.keeper(), "u1")
	ran := make(chan *asynq.Task, 1)
	mux := asynq.NewServeMux()
	mux.HandleFunc("order", func(_ context.Context, task *asynq.Task) error {
		ran <- task
		return nil
	})
	cfg := workers(2)
	cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) {
		t.Errorf("the error handler heard of %v", err)
	})
	e.serve(e.keeper(), func(l *asynqmw.Locks) asynq.Handler {
		mux.Use(asynqmw.Middleware(l, func(task *asynq.Task) string {
			return lockmw.Key(task.Type(), string(task.Payload()))
		}, retriesIn))
		return mux
	}, cfg, alone[:1]...)
	original, err := e.client.Enqueue(
		asynq.NewTaskWithHeaders("order", []byte("u1"), map[string]string{"tenant": "x"}),
		asynq.MaxRetry(0), asynq.Unique(time.Hour), asynq.Retention(time.Hour))
	require.NoError(t, err)
	copied := e.awaitCopy(original.ID) // dropped, and not shown as completed
	require.Eventually(t, func() bool { return e.isGone(copied.ID) }, soon, tick,
		"a copy of the copy as well")
	release()
	task := <-ran
	assert.Equal(t, "order", task.Type())
	assert.Equal(t, "u1", string(task.Payload()))
	assert.Equal(t, map[string]string{"tenant": "x", "Lockbeat-Origin": original.ID},
		task.Headers())
}

// A copy had no Deadline, and no Retention: it ran after its producer had given
// it up.
func TestCopyKeepsTheTimesOfItsOriginal(t *testing.T) {
	t.Parallel()
	at := time.Unix(time.Now().Unix()+3600, 0)
	for name, c := range map[string]struct {
		limits  []asynq.Option
		timeout time.Duration
		end     time.Time
		keep    time.Duration
	}{
		"all": {
			[]asynq.Option{
				asynq.Timeout(90 * time.Second), asynq.Deadline(at), asynq.Retention(2 * time.Hour),
			},
			90 * time.Second, at, 2 * time.Hour,
		},
		"Timeout": {
			[]asynq.Option{asynq.Timeout(90 * time.Second)}, 90 * time.Second, time.Time{}, 0,
		},
		"Deadline": {[]asynq.Option{asynq.Deadline(at)}, 0, at, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			var r record
			release := hold(t, e.keeper(), "u1")
			defer release()
			e.serve(e.keeper(), r.handler(0, jobs.RetryIn(time.Hour)), workers(2))
			copied := e.awaitCopy(e.enqueue("u1", append([]asynq.Option{
				asynq.MaxRetry(0), asynq.Retention(0),
			}, c.limits...)...))
			assert.Equal(t, c.timeout, copied.Timeout)
			assert.True(t, c.end.Equal(copied.Deadline), copied.Deadline)
			assert.Equal(t, c.keep, copied.Retention)
		})
	}
}

// By another Redis than the server's, copies would be in a queue that no server
// has.
func TestNoCopyGoesToAnotherRedis(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	other := newDatabase(t, e.Server, 1)
	var r record
	release := hold(t, e.keeper(), "u1")
	defer release()
	e.serveBy(e.keeper(), other.redis(), r.handler(0, retriesIn), workers(2))
	info := e.awaitState(e.enqueue("u1", asynq.MaxRetry(0), asynq.Timeout(time.Second)),
		asynq.TaskStateArchived)
	assert.Contains(t, info.LastErr, "task not run, and its last attempt may wait no longer: ")
	assert.Contains(t, info.LastErr, "nor could a copy of the task be enqueued: ")
	queues, err := other.inspector.Queues()
	require.NoError(t, err)
	assert.Empty(t, queues)
	assert.Empty(t, r.ran())
}

// Redis takes the copy, and its answers get lost. The tries after that find it
// there. The original neither runs, since the copy might have got through, nor
// is dropped before it is known that it has.
func TestCopyIsTakenOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	link := proxy.Start(t, e.Addr())
	link.Blackhole(proxy.Up)
	var r record
	release := hold(t, e.keeper(), "u1")
	e.serveBy(e.keeper(), asynq.RedisClientOpt{Addr: link.Addr()}, r.handler(0, retriesIn),
		workers(4), alone[:1]...)
	id := e.enqueue("u1", asynq.MaxRetry(0))
	hopeless := e.enqueue("u1", asynq.MaxRetry(0), asynq.Timeout(3*time.Second))
	e.awaitState(id, asynq.TaskStateActive)
	e.awaitState(hopeless, asynq.TaskStateActive)
	require.NoError(t, e.inspector.PauseQueue("default"), "copies don't run")
	link.DropReplyTo(func(request []byte) bool {
		return bytes.Contains(request, []byte("asynq:{default}:scheduled"))
	}, math.MaxInt, proxy.ThenReset)
	link.Heal()
	info := e.awaitState(hopeless, asynq.TaskStateArchived)
	assert.Contains(t, info.LastErr, "and its last attempt may wait no longer")
	assert.Contains(t, info.LastErr, "nor could a copy of the task be enqueued: ")
	assert.False(t, e.isGone(id), "while nobody knows of a copy")
	require.Positive(t, link.Dropped())
	release()
	link.DropReplyTo(nil, 0, proxy.ThenReset)
	require.Eventually(t, func() bool { return e.isGone(id) }, soon, tick)
	queue, err := e.inspector.GetQueueInfo("default")
	require.NoError(t, err)
	assert.LessOrEqual(t, queue.Scheduled+queue.Pending, 2, "one of each, at most")
	assert.Empty(t, r.ran())
}
