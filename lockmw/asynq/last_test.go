package asynqmw_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
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

// A task has failed, and is on its last attempt now: it waits, or goes on as a copy that has as
// many attempts left.
func TestLastAttemptAfterAFailure(t *testing.T) {
	t.Parallel()
	for name, copies := range map[string]bool{"waits": false, "by a copy": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			opts := []option{lockmw.Refuse(), jobs.RetryIn(time.Hour)}
			if copies {
				opts = append(opts, requeue(e.redis()))
			}
			fails := true
			e.serve(handle(e.keeper(), byUser, func(context.Context, order) error {
				if fails {
					fails = false
					return errors.New("no luck")
				}
				return nil
			}, opts...), workers(4))
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
	e.serve(r.handler(e.keeper(), 0), cfg)
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

// Eight tasks of a busy user, each on its only attempt, used to keep all
// other users out for as long as they waited.
func TestOneTaskOfAKeyWaitsOnItsLastAttempt(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var r record
	release := hold(t, e.keeper(), "u1")
	e.serve(r.handler(e.keeper(), 0, lockmw.Refuse()), workers(8))
	var ids []string
	for range 9 {
		ids = append(ids, e.enqueue("u1", asynq.MaxRetry(0)))
	}
	require.Eventually(t, func() bool {
		queue, err := e.inspector.GetQueueInfo("default")
		return err == nil && queue.Archived == 8 && queue.Active == 1
	}, soon, tick)
	e.awaitState(e.enqueue("u2", asynq.MaxRetry(0)), asynq.TaskStateCompleted)
	release()
	done := 0
	for _, id := range ids {
		info := e.await(id, func(i *asynq.TaskInfo) bool {
			return i.State == asynq.TaskStateCompleted || i.State == asynq.TaskStateArchived
		})
		if info.State == asynq.TaskStateCompleted {
			done++
			continue
		}
		assert.Contains(t, info.LastErr, "lockbeat: task not run on its last attempt, since ")
		assert.Contains(t, info.LastErr, "asynqmw.Requeue")
		assert.Contains(t, info.LastErr, "held by another owner")
	}
	assert.Equal(t, 1, done)
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
	e.serve(r.handler(e.keeper(), 20*time.Millisecond), workers(n))
	e.awaitDone(n)
}

// asynq archives a task on its last attempt whose worker is killed: one that waited in its worker
// was archived so, and had never begun.
func TestLastAttemptThatCanGoBackWaitsInNoWorker(t *testing.T) {
	t.Parallel()
	for name, inLine := range map[string]bool{"in line": true, "out of line": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			var r record
			release := hold(t, e.keeper(), "u1")
			opts := []option{
				lockmw.Wait(time.Hour), jobs.RetryIn(time.Hour), requeue(e.redis()),
			}
			if inLine {
				opts = append(opts, inLine(e.redis()))
			}
			e.serve(r.handler(e.keeper(), 0, opts...), workers(4))
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
	mux.Use(asynqmw.Middleware(e.keeper(), func(task *asynq.Task) string { return string(task.Payload()) }, retriesIn, requeue(e.redis())))
	mux.HandleFunc("order", func(_ context.Context, task *asynq.Task) error {
		ran <- task
		return nil
	})
	cfg := workers(2)
	cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) {
		t.Errorf("the error handler heard of %v", err)
	})
	e.serve(mux, cfg)
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

// A copy had no Deadline, and no Retention: it ran after its producer had given it up.
func TestCopyKeepsTheTimesOfItsOriginal(t *testing.T) {
	t.Parallel()
	type times struct {
		Timeout   time.Duration
		Deadline  time.Time
		Retention time.Duration
	}
	soon10, soon60 := time.Unix(time.Now().Unix()+600, 0), time.Unix(time.Now().Unix()+3600, 0)
	for name, c := range map[string]struct {
		inLine         bool
		original, copy times
	}{
		"with an inspector": {
			true,
			times{90 * time.Second, soon60, 2 * time.Hour},
			times{90 * time.Second, soon60, 2 * time.Hour},
		},
		"with an inspector, no Deadline": {
			true, times{90 * time.Second, time.Time{}, 0}, times{90 * time.Second, time.Time{}, 0},
		},
		"without, Timeout": {
			false,
			times{90 * time.Second, time.Time{}, 2 * time.Hour},
			times{90 * time.Second, time.Time{}, 0},
		},
		"without, Deadline":       {false, times{0, soon10, 0}, times{0, soon10, 0}},
		"without, Deadline first": {false, times{time.Hour, soon10, 0}, times{0, soon10, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			var r record
			release := hold(t, e.keeper(), "u1")
			defer release()
			opts := []option{requeue(e.redis()), jobs.RetryIn(time.Hour)}
			if c.inLine {
				opts = append(opts, inLine(e.redis()))
			}
			e.serve(r.handler(e.keeper(), 0, opts...), workers(2))
			limits := []asynq.Option{asynq.MaxRetry(0), asynq.Retention(c.original.Retention)}
			if c.original.Timeout > 0 {
				limits = append(limits, asynq.Timeout(c.original.Timeout))
			}
			if !c.original.Deadline.IsZero() {
				limits = append(limits, asynq.Deadline(c.original.Deadline))
			}
			copied := e.awaitCopy(e.enqueue("u1", limits...))
			got := times{copied.Timeout, copied.Deadline, copied.Retention}
			assert.True(t, c.copy.Deadline.Equal(got.Deadline), got.Deadline)
			got.Deadline = c.copy.Deadline
			assert.Equal(t, c.copy, got)
		})
	}
}

// The client's Redis takes the copy and its answers get lost. The tries after that find it there.
// The original neither runs, since the copy might have got through, nor is dropped before it is
// known that it has.
func TestCopyIsTakenOnce(t *testing.T) {
	t.Parallel()
	e, elsewhere := newEnv(t), redistest.Start(t)
	client := asynq.NewClient(asynq.RedisClientOpt{
		Addr:        elsewhere.Addr(),
		ReadTimeout: 50 * time.Millisecond,
	})
	t.Cleanup(func() { _ = client.Close() })
	// the server learns the script
	patient := asynq.NewClient(asynq.RedisClientOpt{Addr: elsewhere.Addr()})
	_, err := patient.Enqueue(asynq.NewTask("order", nil), asynq.ProcessIn(time.Hour))
	require.NoError(t, errors.Join(err, patient.Close()))

	var r record
	release := hold(t, e.keeper(), "u1")
	e.serve(r.handler(e.keeper(), 0, retriesIn, asynqmw.Requeue(client)), workers(4))
	require.NoError(t, elsewhere.Stop())
	id := e.enqueue("u1", asynq.MaxRetry(0))
	hopeless := e.enqueue("u1", asynq.MaxRetry(0), asynq.Timeout(3*time.Second))
	info := e.awaitState(hopeless, asynq.TaskStateArchived)
	assert.Contains(t, info.LastErr, "and its last attempt may wait no longer")
	assert.Contains(t, info.LastErr, "nor could a copy of the task be enqueued: ")
	assert.False(t, e.isGone(id), "while nobody knows of a copy")
	release()
	require.NoError(t, elsewhere.Cont())
	require.Eventually(t, func() bool { return e.isGone(id) }, soon, tick)
	n, err := elsewhere.Do("ZCARD", "asynq:{default}:scheduled").AsInt64()
	require.NoError(t, err)
	assert.LessOrEqual(t, n, int64(3), "one of each, at most")
	assert.Empty(t, r.ran())
}
