package asynqmw_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestCopyIsAsTheOriginal(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, e *env) {
		k := e.keeper()
		release := hold(t, e.keeper(), "u1")
		ran := make(chan *asynq.Task, 1)
		mux := asynq.NewServeMux()
		mux.Use(asynqmw.Middleware(k, func(task *asynq.Task) (string, error) {
			return string(task.Payload()), nil
		},
			retriesIn, asynqmw.Requeue(e.client, asynq.Retention(time.Hour))))
		mux.HandleFunc("order", func(_ context.Context, task *asynq.Task) error {
			ran <- task
			return nil
		})
		e.serve(mux, func(cfg *asynq.Config) {
			cfg.Queues = map[string]int{"special": 1}
			cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task,
				err error,
			) {
				t.Errorf("the error handler heard of %v", err)
			})
		})
		original, err := e.client.Enqueue(
			asynq.NewTaskWithHeaders("order", []byte("u1"), map[string]string{"tenant": "x"}),
			asynq.Queue("special"), asynq.MaxRetry(0), asynq.Timeout(90*time.Second),
			asynq.Unique(time.Hour),
			asynq.Retention(2*time.Hour))
		require.NoError(t, err)
		gone := func(id string) bool {
			_, err := e.inspector.GetTaskInfo("special", id)
			return errors.Is(err, asynq.ErrTaskNotFound)
		}
		require.Eventually(t, func() bool {
			return gone(original.ID)
		}, soon, tick, "dropped, and not shown as completed")
		// A copy of the copy as well, so that it is seen to keep what it has.
		var first *asynq.TaskInfo
		require.Eventually(t, func() bool {
			tasks, err := e.inspector.ListScheduledTasks("special")
			if err == nil && len(tasks) == 1 {
				first = tasks[0]
			}
			return first != nil
		}, soon, time.Millisecond)
		require.Eventually(t, func() bool { return gone(first.ID) }, soon, tick)
		release()

		task := <-ran
		assert.Equal(t, "order", task.Type())
		assert.Equal(t, "u1", string(task.Payload()))
		assert.Equal(t, map[string]string{"tenant": "x", asynqmw.OriginHeader: original.ID},
			task.Headers())
		require.Eventually(t, func() bool {
			queue, err := e.inspector.GetQueueInfo("special")
			return err == nil && queue.Completed == 1 && queue.Size == 1
		}, soon, tick)
		done, err := e.inspector.ListCompletedTasks("special")
		require.NoError(t, err)
		assert.Zero(t, done[0].MaxRetry)
		assert.Zero(t, done[0].Retried)
		assert.InDelta(t, 90, done[0].Timeout.Seconds(), 1.01)
		assert.Equal(t, time.Hour, done[0].Retention)
	})
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
			times{90 * time.Second, time.Time{}, time.Minute},
		},
		"without, Deadline": {false, times{0, soon10, 0}, times{0, soon10, time.Minute}},
		"without, Deadline first": {
			false, times{time.Hour, soon10, 0}, times{0, soon10, time.Minute},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, redistest.Start(t).ClientOption())
			release := hold(t, e.keeper(), "u1")
			defer release()
			opts := []asynqmw.HandleOption{
				asynqmw.Requeue(e.client, asynq.Retention(time.Minute)),
				asynqmw.RetryIn(time.Hour),
			}
			if c.inLine {
				opts = append(opts, asynqmw.InLine(e.redis()))
			}
			e.serve(asynqmw.Handle(e.keeper(), byUser, func(context.Context, order) error {
				return nil
			}, opts...))
			limits := []asynq.Option{asynq.MaxRetry(0), asynq.Retention(c.original.Retention)}
			if c.original.Timeout > 0 {
				limits = append(limits, asynq.Timeout(c.original.Timeout))
			}
			if !c.original.Deadline.IsZero() {
				limits = append(limits, asynq.Deadline(c.original.Deadline))
			}
			original := e.enqueue("u1", limits...)
			var copied *asynq.TaskInfo
			require.Eventually(t, func() bool {
				tasks, err := e.inspector.ListScheduledTasks("default")
				if err == nil && len(tasks) == 1 && tasks[0].ID != original {
					copied = tasks[0]
				}
				return copied != nil
			}, soon, tick)
			got := times{copied.Timeout, copied.Deadline, copied.Retention}
			assert.True(t, c.copy.Deadline.Equal(got.Deadline), got.Deadline)
			got.Deadline = c.copy.Deadline
			assert.Equal(t, c.copy, got)
		})
	}
}

// Its producer's Deadline passes while a copy waits: asynq archives it.
func TestCopyDoesNotRunAfterItsDeadline(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]func(e *env) []asynqmw.HandleOption{
		"in line": func(e *env) []asynqmw.HandleOption {
			return []asynqmw.HandleOption{asynqmw.InLine(e.redis())}
		},
		"without": func(*env) []asynqmw.HandleOption { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, redistest.Start(t).ClientOption())
			release := hold(t, e.keeper(), "u1")
			k := e.keeper(func(cfg *renewer.Config) { cfg.TTL = 5 * time.Second })
			e.serve(asynqmw.Handle(k, byUser, func(context.Context, order) error {
				t.Error("it ran")
				return nil
			}, append(opts(e), asynqmw.Requeue(e.client))...))
			deadline := time.Now().Add(4 * time.Second)
			e.enqueue("u1", asynq.MaxRetry(0), asynq.Deadline(deadline))
			<-time.After(time.Until(deadline.Add(time.Second)))
			release()
			require.Eventually(t, func() bool {
				queue, err := e.inspector.GetQueueInfo("default")
				return err == nil && queue.Archived == 1 && queue.Size == 1
			}, soon, tick)
		})
	}
}

func TestCopyAfterFailures(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, e *env) {
		k, rival := e.keeper(), e.keeper()
		failed, done := make(chan struct{}, 1), make(chan struct{})
		e.serve(asynqmw.Handle(k, byUser, func(ctx context.Context, _ order) error {
			if most, _ := asynq.GetMaxRetry(ctx); most > 0 { // not the copy
				failed <- struct{}{}
				return errors.New("no luck")
			}
			close(done)
			return nil
		}, retriesIn, asynqmw.Requeue(e.client)), neverByItself)
		id := e.enqueue("u1", asynq.MaxRetry(1))
		<-failed
		release := hold(t, rival, "u1")
		e.awaitState(id, asynq.TaskStateRetry)
		require.NoError(t, e.inspector.RunTask("default", id))
		var queue *asynq.QueueInfo
		require.Eventually(t, func() bool {
			var err error
			queue, err = e.inspector.GetQueueInfo("default")
			return err == nil && queue.Scheduled == 1
		}, soon, time.Millisecond)
		assert.Zero(t, queue.Archived)
		release()
		<-done
		queue, err := e.inspector.GetQueueInfo("default")
		require.NoError(t, err)
		assert.Equal(t, 1, queue.FailedTotal, "the one real failure")
	})
}

// The client's Redis is down when a copy is due. The original neither
// runs, since the copy might have got through, nor is dropped.
func TestCopyIsRetriedUntilItIsTaken(t *testing.T) {
	t.Parallel()
	e := onEmbedded(t)
	elsewhere := redistest.Start(t)
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: elsewhere.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	elsewhere.Kill()

	k := e.keeper()
	release := hold(t, e.keeper(), "u1")
	e.serve(asynqmw.Handle(k, byUser, func(context.Context, order) error {
		t.Error("the original ran")
		return nil
	}, retriesIn, asynqmw.Wait(0), asynqmw.Requeue(client)))
	id := e.enqueue("u1", asynq.MaxRetry(0))
	// Of its time a part is left for asynq to hear: more than a busy machine takes.
	hopeless := e.enqueue("u1", asynq.MaxRetry(0), asynq.Timeout(8*time.Second))
	e.awaitState(id, asynq.TaskStateActive)
	info := e.awaitState(hopeless, asynq.TaskStateArchived)
	assert.Contains(t, info.LastErr, "and its last attempt may wait no longer")
	assert.Contains(t, info.LastErr, "nor could a copy of the task be enqueued: ")
	release()

	require.NoError(t, elsewhere.Restart())
	require.Eventually(t, func() bool {
		_, err := e.inspector.GetTaskInfo("default", id)
		return errors.Is(err, asynq.ErrTaskNotFound)
	}, soon, tick)
	size, err := elsewhere.Do("ZCARD", "asynq:{default}:scheduled").AsInt64()
	require.NoError(t, err)
	assert.EqualValues(t, 1, size)
}

// The client's Redis takes the copy and its answers get lost. The tries after that find it there.
func TestCopyIsTakenOnce(t *testing.T) {
	t.Parallel()
	e := onEmbedded(t)
	elsewhere := redistest.Start(t)
	client := asynq.NewClient(asynq.RedisClientOpt{
		Addr:        elsewhere.Addr(),
		ReadTimeout: 50 * time.Millisecond,
	})
	t.Cleanup(func() { _ = client.Close() })
	scheduled := func() int64 {
		n, err := elsewhere.Do("ZCARD", "asynq:{default}:scheduled").AsInt64()
		require.NoError(t, err)
		return n
	}
	// the server learns the script
	patient := asynq.NewClient(asynq.RedisClientOpt{Addr: elsewhere.Addr()})
	_, err := patient.Enqueue(asynq.NewTask("order", nil), asynq.ProcessIn(time.Hour))
	require.NoError(t, errors.Join(err, patient.Close()))

	k := e.keeper()
	release := hold(t, e.keeper(), "u1")
	defer release()
	e.serve(asynqmw.Handle(k, byUser, func(context.Context, order) error {
		return nil
	}, retriesIn, asynqmw.Requeue(client)))
	require.NoError(t, elsewhere.Stop())
	id := e.enqueue("u1", asynq.MaxRetry(0))
	dropped := func() bool {
		_, err := e.inspector.GetTaskInfo("default", id)
		return errors.Is(err, asynq.ErrTaskNotFound)
	}
	require.Never(t, dropped, time.Second, tick, "while nobody knows of a copy")
	require.NoError(t, elsewhere.Cont())
	require.Eventually(t, dropped, soon, tick)
	assert.EqualValues(t, 2, scheduled())
}
