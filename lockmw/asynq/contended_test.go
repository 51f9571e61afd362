package asynqmw_test

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
)

func TestContendedTasksRunAloneAndUncounted(t *testing.T) {
	t.Parallel()
	const tasks = 50
	retention := asynq.Retention(time.Hour)
	for name, c := range map[string]struct {
		retries int
		options func(e *env) []asynqmw.HandleOption
	}{
		"with attempts to spare": {25, func(*env) []asynqmw.HandleOption { return nil }},
		"waiting": {25, func(*env) []asynqmw.HandleOption {
			return []asynqmw.HandleOption{asynqmw.Wait(time.Second)}
		}},
		"one attempt, by copies": {0, func(e *env) []asynqmw.HandleOption {
			return []asynqmw.HandleOption{asynqmw.Requeue(e.client, retention)}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, e *env) {
				var g gauge
				opts := append(c.options(e), asynqmw.RetryIn(50*time.Millisecond))
				for range 2 {
					e.serve(asynqmw.Handle(e.keeper(), byUser,
						func(ctx context.Context, _ order) error {
							g.enter()
							defer g.leave()
							work(ctx, 5*time.Millisecond)
							return nil
						}, opts...))
				}
				for range tasks {
					e.enqueue("u1", asynq.MaxRetry(c.retries))
				}
				var queue *asynq.QueueInfo
				require.Eventually(t, func() bool {
					var err error
					queue, err = e.inspector.GetQueueInfo("default")
					return err == nil && queue.Completed == tasks && queue.Size == tasks
				}, time.Minute, tick, "all done, and none left over")
				done, err := e.inspector.ListCompletedTasks("default", asynq.PageSize(2*tasks))
				require.NoError(t, err)
				require.Len(t, done, tasks)
				for _, info := range done {
					assert.Zero(t, info.Retried)
				}
				assert.EqualValues(t, tasks, g.runs.Load())
				assert.Zero(t, g.overlaps.Load())
				assert.Zero(t, queue.Archived)
				assert.Zero(t, queue.FailedTotal)
			})
		})
	}
}

func TestRefusedTaskFreesItsSlot(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, e *env) {
		k := e.keeper()
		release := hold(t, e.keeper(), "u1")
		e.serve(asynqmw.Handle(k, byUser, func(context.Context, order) error { return nil }),
			func(cfg *asynq.Config) { cfg.Concurrency = 1 })
		refused := e.enqueue("u1")
		e.awaitState(e.enqueue("u2"), asynq.TaskStateCompleted)
		info := e.awaitRefused(refused)
		assert.Zero(t, info.Retried)
		assert.Contains(t, info.LastErr, "lockbeat: task not run, it comes back in ")
		assert.Contains(t, info.LastErr, `"order:u1": held by another owner`)
		release()
		info = e.awaitState(refused, asynq.TaskStateCompleted)
		assert.Zero(t, info.Retried)
	})
}

func TestSkippedTaskIsDone(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, e *env) {
		k := e.keeper()
		release := hold(t, e.keeper(), "u1")
		defer release()
		e.serve(asynqmw.Handle(k, byUser, func(context.Context, order) error {
			t.Error("it ran")
			return nil
		}, asynqmw.Skip()))
		e.awaitState(e.enqueue("u1"), asynq.TaskStateCompleted)
		e.awaitState(e.enqueue("u1", asynq.MaxRetry(0)), asynq.TaskStateCompleted)
	})
}

func TestWaitingTaskRunsAtTheRelease(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, e *env) {
		k := e.keeper()
		release := hold(t, e.keeper(), "u1")
		e.serve(asynqmw.Handle(k, byUser, func(context.Context, order) error {
			return nil
		}, asynqmw.Wait(soon)))
		id := e.enqueue("u1")
		e.awaitState(id, asynq.TaskStateActive)
		release()
		info := e.awaitState(id, asynq.TaskStateCompleted)
		assert.Empty(t, info.LastErr)
	})
}

func TestWaitEndsBeforeTheTasksTime(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, e *env) {
		k := e.keeper()
		release := hold(t, e.keeper(), "u1")
		e.serve(asynqmw.Handle(k, byUser, func(context.Context, order) error {
			return nil
		}, asynqmw.Wait(time.Hour)))
		id := e.enqueue("u1", asynq.Timeout(8*time.Second))
		info := e.awaitRefused(id)
		assert.Zero(t, info.Retried)
		assert.Contains(t, info.LastErr, "held by another owner after ")
		release()
		info = e.awaitState(id, asynq.TaskStateCompleted)
		assert.Zero(t, info.Retried)
	})
}
