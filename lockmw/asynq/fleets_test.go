package asynqmw_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// onRedis runs a test with queues and locks on one real Redis, and on two.
func onRedis(t *testing.T, test func(t *testing.T, queues, locks *env)) {
	t.Run("together", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, redistest.Start(t).ClientOption())
		test(t, e, e)
	})
	t.Run("apart", func(t *testing.T) {
		t.Parallel()
		test(t, newEnv(t, redistest.Start(t).ClientOption()),
			newEnv(t, redistest.Start(t).ClientOption()))
	})
}

// awaitParked waits until a task was refused and has left its worker.
func (e *env) awaitParked(id string) {
	e.t.Helper()
	e.await(id, func(i *asynq.TaskInfo) bool {
		return i.LastErr != "" && i.State == asynq.TaskStateRetry
	})
}

func TestTasksOfAFleetRunOnceAndAlone(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, queues, locks *env) {
		const tasks, users = 60, 3
		f := newFleet(queues, locks, 2, 20, 10*time.Millisecond)
		var ids []string
		for i := range tasks {
			ids = append(ids, f.enqueue(fmt.Sprint("u", i%users)))
		}
		f.awaitRuns(tasks, soon)
		for _, id := range ids {
			assert.Zero(t, f.awaitState(id, asynq.TaskStateCompleted).Retried)
		}
		r := &f.record
		assert.ElementsMatch(t, ids, r.runs)
		assert.Zero(t, r.overlaps)
		assert.NotEmpty(t, r.refused)
		assert.LessOrEqual(t, len(r.refused), r.refusals)
		t.Logf("%d of %d tasks were refused, %d times; %d were overtaken", len(r.refused), tasks,
			r.refusals, r.overtaken())
	})
}

// Of three tasks that went back, one is deleted and one archived by hand. The queue is paused
// meanwhile. None of that keeps the third, or the key, from its turn.
func TestParkedTasksThatAreDeletedOrArchived(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, queues, locks *env) {
		release := hold(t, locks.keeper(), "u1")
		f := newFleet(queues, locks, 2, 1, time.Millisecond) // no task waits at an only worker
		deleted, archived, third := f.enqueue("u1"), f.enqueue("u1"), f.enqueue("u1")
		for _, id := range []string{deleted, archived, third} {
			f.awaitParked(id)
		}
		require.NoError(t, f.inspector.PauseQueue("default"))
		f.await(third, func(i *asynq.TaskInfo) bool { return i.State != asynq.TaskStateActive })
		for act, id := range map[string]string{"delete": deleted, "archive": archived} {
			require.Eventually(t, func() bool { // it may be under way once more
				if act == "delete" {
					return f.inspector.DeleteTask("default", id) == nil
				}
				return f.inspector.ArchiveTask("default", id) == nil
			}, soon, time.Millisecond)
		}
		release()
		require.Never(t, func() bool { return f.record.ran() > 0 }, time.Second, tick)
		require.NoError(t, f.inspector.UnpauseQueue("default"))
		f.awaitState(third, asynq.TaskStateCompleted)
		f.awaitState(f.enqueue("u1"), asynq.TaskStateCompleted)
		_, err := f.inspector.GetTaskInfo("default", deleted)
		require.ErrorIs(t, err, asynq.ErrTaskNotFound)
		f.awaitState(archived, asynq.TaskStateArchived)
		assert.False(t, slices.Contains(f.record.runs, archived))
	})
}

// The process that runs a task is killed. The next task of its key runs when
// the lock has lapsed, in another process.
func TestTheNextTaskOfAKilledProcess(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, queues, locks *env) {
		p := process{
			Queues: queues.redis().Addr, Locks: locks.redis().Addr, Workers: 1,
			Takes: time.Hour, TTL: 3 * time.Second,
		} // which takes no other task
		first := p.start(t)
		id := queues.enqueue("u1")
		require.Equal(t, id, first.await(t, began, soon))
		p.Takes, p.Workers = time.Millisecond, 4
		second := p.start(t)
		next := queues.enqueue("u1")
		require.Equal(t, next, second.await(t, refused, soon))
		first.kill()
		require.Equal(t, next, second.await(t, ended, soon))
		queues.awaitState(next, asynq.TaskStateCompleted)
		queues.awaitState(id, asynq.TaskStateActive)
		second.stop(t)
	})
}
