package asynqmw_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// Tasks that waited for their lock in a worker's slot had what was left of their time for their
// work: they were timed out in the middle of it, and archived.
func TestTheWorkHasItsTime(t *testing.T) {
	t.Parallel()
	const tasks, takes, timeout = 3, 3 * time.Second, 8 * time.Second
	for name, options := range map[string]func(e *env) []asynqmw.HandleOption{
		"in line, by copies": func(e *env) []asynqmw.HandleOption {
			return []asynqmw.HandleOption{
				asynqmw.InLine(e.redis()), asynqmw.Requeue(e.client, asynq.Retention(time.Hour)),
			}
		},
		"in line": func(e *env) []asynqmw.HandleOption {
			return []asynqmw.HandleOption{asynqmw.InLine(e.redis()), asynqmw.Wait(time.Minute)}
		},
		"by Wait": func(*env) []asynqmw.HandleOption {
			return []asynqmw.HandleOption{asynqmw.Wait(time.Minute)}
		},
		"by default": func(*env) []asynqmw.HandleOption { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, redistest.Start(t).ClientOption())
			f := newFleet(e, e, 2, 4, takes, options(e)...)
			retries := 1
			if name == "in line, by copies" {
				retries = 0
			}
			for range tasks {
				f.enqueue("u1", asynq.Timeout(timeout), asynq.MaxRetry(retries))
			}
			f.awaitRuns(tasks, time.Minute)
			require.Eventually(t, func() bool {
				queue, err := e.inspector.GetQueueInfo("default")
				return err == nil && queue.Completed == tasks && queue.Size == tasks
			}, soon, tick, "all done, and none left over")
			assert.Len(t, f.record.runs, tasks, "none was timed out")
			assert.Zero(t, f.record.overlaps)
		})
	}
}

// Without a line, or with one that does not answer, a task waits for a second, and for an eighth of
// its time at most.
func TestAWaitIsAnEighthOfTheTimeAtMost(t *testing.T) {
	t.Parallel()
	wait := asynqmw.Wait(time.Minute)
	for name, c := range map[string]struct {
		time, want time.Duration
		opts       []asynqmw.HandleOption
	}{
		"a short time":          {3 * time.Second, 375 * time.Millisecond, nil},
		"a short time, by Wait": {3 * time.Second, 375 * time.Millisecond, []asynqmw.HandleOption{wait}},
		"a long time":           {time.Hour, asynqmw.DefaultWait, nil},
		"a long time, by Wait":  {time.Hour, time.Minute, []asynqmw.HandleOption{wait}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k, store := scripted(t)
				store.Overwrite("order:u1", renewer.Holder{}, 24*time.Hour)
				h := asynqmw.Handle(k, byUser, func(context.Context, order) error {
					t.Error("it ran")
					return nil
				}, c.opts...)
				ctx, cancel := context.WithTimeout(served(t), c.time)
				defer cancel()
				begun := time.Now()
				require.ErrorIs(t, h.ProcessTask(ctx, task(`{"User":"u1"}`)), renewer.ErrHeld)
				assert.Equal(t, c.want, time.Since(begun))
			})
		})
	}
}
