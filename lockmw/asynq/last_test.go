package asynqmw_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	"github.com/lockbeat/lockbeat/renewer"
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

// A task has failed, and is on its last attempt now: it waits, or goes on as a
// copy that has as many attempts left.
func TestLastAttemptAfterAFailure(t *testing.T) {
	t.Parallel()
	for name, copies := range map[string]bool{"waits": false, "by a copy": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			opts := alone
			if copies {
				opts = alone[:1]
			}
			fails := true
			e.serve(e.keeper(), wrap(byUser, func(context.Context, order) error {
				if fails {
					fails = false
					return errors.New("no luck")
				}
				return nil
			}, lockmw.Refuse(), jobs.RetryIn(time.Hour)), workers(4), opts...)
			id := e.parked("u1", asynq.MaxRetry(1))
			release := hold(t, e.keeper(), "u1")
			require.NoError(t, e.inspector.RunTask("default", id))
			if copies {
				copied := e.awaitCopy(id)
				assert.Zero(t, copied.MaxRetry)
				id = copied.ID
				require.NoError(t, e.inspector.RunTask("default", id))
				release()
			} else {
				e.awaitState(id, asynq.TaskStateActive)
				release()
				e.awaitState(id, asynq.TaskStateCompleted)
			}
			require.Eventually(t, func() bool {
				queue, err := e.inspector.GetQueueInfo("default")
				return err == nil && queue.Active+queue.Pending == 0 && queue.Archived == 0 &&
					queue.FailedTotal == 1
			}, soon, tick, "the one real failure")
		})
	}
}

func TestLastAttemptWithoutTimeIsArchivedAloud(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var r record
	release := hold(t, e.keeper(), "u1")
	defer release()
	heard := make(chan error, 1)
	cfg := workers(4)
	cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) {
		heard <- err
	})
	e.serve(e.keeper(), r.handler(0), cfg, alone...)
	info := e.awaitState(e.enqueue("u1", asynq.MaxRetry(0), asynq.Timeout(8*time.Second)),
		asynq.TaskStateArchived)
	require.Contains(t, info.LastErr,
		"lockbeat: task not run, and its last attempt may wait no longer: ")
	var notRun *asynqmw.NotRunError
	require.ErrorAs(t, <-heard, &notRun)
	require.ErrorIs(t, notRun, renewer.ErrBusy)
	assert.Equal(t, jobs.OutcomeFailed, notRun.Outcome)
	assert.Zero(t, notRun.RetryIn)
	assert.Empty(t, r.ran())
}

// Of tasks that come in the same moment one has the lock. Those for which it is
// free take no room from the one that has to wait.
func TestTasksOnTheirLastAttemptThatComeTogether(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var r record
	const n = 16 // half of them run, half wait: there is no room for more
	for i := range n {
		e.enqueue(fmt.Sprint("u", i/2), asynq.MaxRetry(0))
	}
	e.serve(e.keeper(), r.handler(20*time.Millisecond), workers(n), alone...)
	e.awaitDone(n)
}

// asynq archives a task on its last attempt whose worker is killed: one that
// waited in its worker was archived so, and had never begun.
func TestLastAttemptThatCanGoBackWaitsInNoWorker(t *testing.T) {
	t.Parallel()
	for name, inLine := range map[string]bool{"in line": true, "out of line": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			var r record
			release := hold(t, e.keeper(), "u1")
			opts := alone[:1]
			if inLine {
				opts = nil
			}
			e.serve(e.keeper(), r.handler(0, lockmw.Wait(time.Hour), jobs.RetryIn(time.Hour)),
				workers(4), opts...)
			copied := e.awaitCopy(e.enqueue("u1", asynq.MaxRetry(0)))
			release()
			if !inLine {
				require.NoError(t, e.inspector.RunTask("default", copied.ID))
			}
			require.Eventually(t, func() bool { return len(r.ran()) == 1 }, soon, tick)
		})
	}
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
