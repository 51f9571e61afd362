package asynqmw_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// keysOf lists what a line of tasks leaves on the locks' server.
func (e *env) keysOf(user string) (keys []string) {
	client, err := rueidis.NewClient(e.option)
	require.NoError(e.t, err)
	defer client.Close()
	for _, suffix := range []string{tasksSuffix, slotSuffix, wokenSuffix} {
		key := "lockbeat:{order:" + user + "}" + suffix
		n, err := client.Do(context.Background(), client.B().Exists().Key(key).Build()).AsInt64()
		require.NoError(e.t, err)
		if n > 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

// awaitSlot waits until a task of a user waits in its slot.
func (e *env) awaitSlot(user string) {
	e.t.Helper()
	require.Eventually(e.t, func() bool {
		return slices.Contains(e.keysOf(user), "lockbeat:{order:"+user+"}"+slotSuffix)
	}, soon, tick)
}

// place gives a task of u1's the last place in the line.
func (e *env) place(id string) {
	e.t.Helper()
	e.write("ZADD", lineOf("u1"), strconv.FormatInt(time.Now().UnixMicro(), 10), "default\n"+id)
}

func TestTasksInLineRunInOrder(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, queues, locks *env) {
		const tasks, takes = 100, 20 * time.Millisecond
		f := newFleet(queues, locks, 2, 20, takes, asynqmw.InLine(queues.redis()))
		begun := time.Now()
		var ids []string
		for range tasks {
			ids = append(ids, f.enqueue("u1"))
		}
		f.awaitRuns(tasks, soon)
		took := time.Since(begun)
		for _, id := range ids {
			assert.Zero(t, f.awaitState(id, asynq.TaskStateCompleted).Retried)
		}
		r := &f.record
		assert.ElementsMatch(t, ids, r.runs)
		assert.Zero(t, r.overlaps)
		assert.Less(t, took, renewer.DefaultTTL) // by itself none comes sooner
		if took < 2*tasks*takes {                // else some may not have come within a second
			assert.LessOrEqual(t, r.overtaken(), tasks/100)
		}
		require.Eventually(t, func() bool { return len(locks.keysOf("u1")) == 0 }, soon, tick)
		t.Logf("%v, %d refusals, %d overtaken", took, r.refusals, r.overtaken())
	})
}

// A holder that is no task, and knows nothing of the line, works for longer than a task waits in
// its slot. The tasks are called when it releases the lock, and not before, in order.
func TestTasksInLineBehindAnotherKindOfHolder(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, queues, locks *env) {
		release := hold(t, locks.keeper(), "u1")
		f := newFleet(queues, locks, 2, 4, time.Millisecond, asynqmw.InLine(queues.redis()))
		first := f.enqueue("u1")
		locks.awaitSlot("u1")
		second, third := f.enqueue("u1"), f.enqueue("u1")
		for _, id := range []string{first, second, third} {
			f.awaitParked(id)
		}
		info := f.awaitRefused(third)
		assert.Contains(t, info.LastErr, "it stands in line, and comes back when its turn is near")
		assert.Equal(t, []string{"lockbeat:{order:u1}:tasks:HOME"}, locks.keysOf("u1"), "none waits")
		before := f.record.happened()
		require.Never(t, func() bool { return f.record.happened() != before }, 3*time.Second, tick)
		release()
		f.awaitRuns(3, goesOn) // their own return takes longer
		assert.Equal(t, first, f.record.runs[0])
	})
}

// asynq shows its last error of a task first. It said that another owner has the lock, and not who,
// of a task that went to its place without asking for the lock.
func TestTheLastErrorOfATaskInLineSaysWhoHasTheLock(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, queues, locks *env) {
		holder := locks.keeper(func(cfg *renewer.Config) { cfg.Node = "holder-1" })
		lease, err := holder.Acquire(t.Context(), "order:u1", renewer.Operation("fulfil"))
		require.NoError(t, err)
		f := newFleet(queues, locks, 1, 4, time.Millisecond, asynqmw.InLine(queues.redis()))
		f.enqueue("u1")
		locks.awaitSlot("u1")
		for i := range 3 {
			id := f.enqueue("u1")
			f.awaitParked(id)
			assert.Regexp(t, fmt.Sprintf(`held by another owner; last seen with holder-1 pid \d+ `+
				`\(fulfil\), for [\d.]+m?s by then: %d before it in line`, i),
				f.awaitRefused(id).LastErr)
		}
		require.NoError(t, lease.Release(t.Context()))
		f.awaitRuns(4, goesOn)
	})
}

// The next task has its place, but its worker is slow to put it back: it can't be run until then.
// It used to be given up after 16 ms, and came back when the keeper's TTL was over.
func TestTasksInLineThatAreSlowToGoBack(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, queues, locks *env) {
		release := hold(t, locks.keeper(), "u1")
		f := &fleet{env: queues, locks: locks, record: newRecord()}
		h := asynqmw.Handle(locks.keeper(), byUser, func(ctx context.Context, o order) error {
			defer f.record.begin(ctx, o.User)()
			return nil
		}, asynqmw.InLine(queues.redis()))
		parked := make(chan struct{})
		f.serve(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			err := h.ProcessTask(ctx, task)
			if _, refused := errors.AsType[*asynqmw.NotRunError](err); refused {
				close(parked) // once
				work(ctx, 100*time.Millisecond)
			}
			return err
		}), asUsers(8))
		waits := f.enqueue("u1")
		locks.awaitSlot("u1")
		next := f.enqueue("u1")
		<-parked
		release()
		f.awaitRuns(2, goesOn)
		assert.Equal(t, []string{waits, next}, f.record.runs)
	})
}

// The first in line are deleted and archived by hand, or have gone long ago.
func TestTasksInLineThatAreGone(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, queues, locks *env) {
		release := hold(t, locks.keeper(), "u1")
		f := newFleet(queues, locks, 2, 4, time.Millisecond, asynqmw.InLine(queues.redis()))
		waits := f.enqueue("u1")
		locks.awaitSlot("u1")
		for i := range 100 {
			locks.place(fmt.Sprint("gone ", i))
		}
		var ids []string
		for range 5 {
			ids = append(ids, f.enqueue("u1"))
			f.awaitParked(ids[len(ids)-1])
		}
		require.NoError(t, f.inspector.DeleteTask("default", ids[0]))
		require.NoError(t, f.inspector.ArchiveTask("default", ids[1]))
		require.NoError(t, f.inspector.DeleteTask("default", ids[2]))
		release()
		f.awaitRuns(3, goesOn)
		assert.Equal(t, []string{waits, ids[3], ids[4]}, f.record.runs)
		f.awaitState(ids[1], asynq.TaskStateArchived)
		require.Eventually(t, func() bool { return len(locks.keysOf("u1")) == 0 }, soon, tick)
	})
}

// A place outlives its task, which is completed: it is not run again.
func TestCompletedTasksInLineDontRunAgain(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, queues, locks *env) {
		f := newFleet(queues, locks, 1, 4, time.Millisecond, asynqmw.InLine(queues.redis()))
		done := f.enqueue("u1")
		f.awaitState(done, asynq.TaskStateCompleted)
		release := hold(t, locks.keeper(), "u1")
		waits := f.enqueue("u1")
		locks.awaitSlot("u1")
		locks.place(done)
		next := f.enqueue("u1")
		f.awaitParked(next)
		release()
		f.awaitRuns(3, goesOn)
		assert.Equal(t, []string{done, waits, next}, f.record.runs)
		f.awaitState(next, asynq.TaskStateCompleted)
		require.Never(t, func() bool { return f.record.ran() > 3 }, time.Second, tick)
	})
}

// The queue of the first in line is paused: those of another queue pass it after about a second,
// and it comes when its queue goes on.
func TestTasksInLineOfAPausedQueue(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, queues, locks *env) {
		release := hold(t, locks.keeper(), "u1")
		f := &fleet{env: queues, locks: locks, record: newRecord()}
		h := asynqmw.Handle(locks.keeper(), byUser, func(ctx context.Context, o order) error {
			defer f.record.begin(ctx, o.User)()
			return nil
		}, asynqmw.InLine(queues.redis()))
		f.serve(f.record.refusalsOf(h), func(cfg *asynq.Config) {
			asUsers(8)(cfg)
			cfg.Queues = map[string]int{"default": 1, "other": 1}
		})
		waits := f.enqueue("u1")
		locks.awaitSlot("u1")
		var paused, others []string
		for range 3 {
			paused = append(paused, f.enqueue("u1"))
			f.awaitParked(paused[len(paused)-1])
		}
		require.NoError(t, f.inspector.PauseQueue("default"))
		for range 3 {
			id := f.enqueue("u1", asynq.Queue("other"))
			others = append(others, id)
			require.Eventually(t, func() bool {
				info, err := f.inspector.GetTaskInfo("other", id)
				return err == nil && info.State == asynq.TaskStateRetry
			}, soon, tick)
		}
		release()
		f.awaitRuns(4, goesOn)
		assert.Equal(t, append([]string{waits}, others...), f.record.runs)
		require.NoError(t, f.inspector.UnpauseQueue("default"))
		f.awaitRuns(7, soon)
		assert.ElementsMatch(t, paused, f.record.runs[4:])
	})
}

// The process whose task runs is killed while only tasks in their queue want its lock, and so is
// the one that refused them.
func TestTasksInLineBehindAKilledProcess(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, queues, locks *env) {
		const ttl = 5 * time.Second
		p := process{
			Queues: queues.redis().Addr, Locks: locks.redis().Addr, Workers: 1,
			Takes: time.Hour, TTL: ttl, InLine: true,
		} // which takes no other task
		first := p.start(t)
		id := queues.enqueue("u1")
		require.Equal(t, id, first.await(t, began, soon))
		p.Takes = time.Millisecond
		second := p.start(t)
		var ids []string
		for range 3 { // none waits at an only worker
			id := queues.enqueue("u1")
			ids = append(ids, id)
			for told := ""; told != id; { // one before it may come again
				told = second.await(t, refused, soon)
			}
		}
		queues.awaitParked(ids[2])
		first.kill()
		second.kill() // nor does a process live that knows of them
		// One that it had just looked at again is asynq's to bring back, after two minutes.
		ids = slices.DeleteFunc(ids, func(id string) bool {
			info, err := queues.inspector.GetTaskInfo("default", id)
			return err == nil && info.State == asynq.TaskStateActive
		})
		third := p.start(t)
		// In any order: it has not met contention on that key.
		require.Contains(t, ids, third.await(t, ended, ttl+8*time.Second))
		for _, id := range ids {
			queues.awaitState(id, asynq.TaskStateCompleted)
		}
		third.stop(t)
	})
}

// The process whose task waits in its slot is killed: the others of its key go on.
func TestTasksInLineBehindAKilledSlot(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, queues, locks *env) {
		p := process{
			Queues: queues.redis().Addr, Locks: locks.redis().Addr, Workers: 2,
			Takes: time.Millisecond, TTL: 10 * time.Second, InLine: true,
		}
		release := hold(t, locks.keeper(), "u1")
		first := p.start(t)
		queues.enqueue("u1")
		locks.awaitSlot("u1")
		parked := queues.enqueue("u1")
		queues.awaitParked(parked)
		first.kill()
		second := p.start(t)
		late := queues.enqueue("u1")
		require.Equal(t, late, second.await(t, refused, soon))
		queues.awaitState(parked, asynq.TaskStateActive) // in the slot
		release()
		require.Equal(t, parked, second.await(t, ended, 8*time.Second))
		require.Equal(t, late, second.await(t, ended, 8*time.Second))
		second.stop(t)
	})
}

// A panic of the handler keeps no other task from its turn.
func TestTasksInLineBehindAPanic(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, queues, locks *env) {
		f := &fleet{env: queues, locks: locks, record: newRecord()}
		h := asynqmw.Handle(locks.keeper(), byUser, func(ctx context.Context, o order) error {
			defer f.record.begin(ctx, o.User)()
			work(ctx, tick)
			panic("of a handler")
		}, asynqmw.InLine(queues.redis()))
		f.serve(f.record.refusalsOf(h), asUsers(8))
		const tasks = 20
		for range tasks {
			f.enqueue("u1", asynq.MaxRetry(1))
		}
		f.awaitRuns(tasks, goesOn)
		assert.Zero(t, f.record.overlaps)
	})
}

// Callers that are no tasks always wait for the lock too, and work for longer than a task waits in
// its slot as a rule. A task that is called for each release comes too late for that one: it has to
// stay until its turn.
func TestTasksInLineBesideCallersThatAlwaysWait(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, queues, locks *env) {
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		held := make(chan struct{}, 100)
		for range 2 {
			k := locks.keeper()
			callers.Go(func() {
				for ctx.Err() == nil {
					_, _ = lockmw.Do(ctx, k, "order:u1", func(ctx context.Context) (int, error) {
						held <- struct{}{}
						work(ctx, 1500*time.Millisecond)
						return 0, nil
					})
				}
			})
		}
		<-held
		f := newFleet(queues, locks, 2, 4, time.Millisecond, asynqmw.InLine(queues.redis()))
		f.enqueue("u1", asynq.Timeout(10*time.Minute))
		f.awaitRuns(1, time.Minute)
		assert.Less(t, len(held), 30, "rounds of the others")
		cancel()
		callers.Wait()
	})
}

// A task on its last attempt can't go back: it waits in its slot, and others stand in line.
func TestLastAttemptInLine(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, queues, locks *env) {
		release := hold(t, locks.keeper(), "u1")
		f := newFleet(queues, locks, 2, 8, time.Millisecond, asynqmw.InLine(queues.redis()))
		// It waits for an eighth of its time.
		last := f.enqueue("u1", asynq.MaxRetry(0), asynq.Timeout(10*time.Minute))
		f.awaitState(last, asynq.TaskStateActive)
		next := f.enqueue("u1")
		f.awaitParked(next) // after its moment in a slot
		release()
		f.awaitRuns(2, goesOn)
		assert.Equal(t, []string{last, next}, f.record.runs)
	})
}

// Tasks on their last attempt stand in line as copies, which keep their ranks.
func TestCopiesInLine(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, queues, locks *env) {
		const tasks, takes = 50, 20 * time.Millisecond
		f := newFleet(queues, locks, 2, 20, takes, asynqmw.InLine(queues.redis()),
			asynqmw.Requeue(queues.client, asynq.Retention(time.Hour)))
		begun := time.Now()
		for range tasks {
			f.enqueue("u1", asynq.MaxRetry(0))
		}
		f.awaitRuns(tasks, soon)
		assert.Less(t, time.Since(begun), goesOn) // 1.2 s on an idle machine
		assert.Zero(t, f.record.overlaps)
		require.Eventually(t, func() bool {
			queue, err := f.inspector.GetQueueInfo("default")
			return err == nil && queue.Completed == tasks && queue.Size == tasks
		}, soon, tick, "all done, and none left over")
		require.Eventually(t, func() bool { return len(locks.keysOf("u1")) == 0 }, soon, tick)
		t.Logf("%v, %d refusals", time.Since(begun), f.record.refusals)
	})
}

// A store without lines of tasks: contended tasks are as without InLine.
func TestInLineOnAStoreWithoutLines(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, e *env) {
		k := newKeeper(t, memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
		release := hold(t, k, "u1")
		e.serve(asynqmw.Handle(k, byUser, func(context.Context, order) error { return nil },
			asynqmw.InLine(e.redis()), asynqmw.Wait(0)))
		id := e.enqueue("u1")
		info := e.awaitRefused(id)
		assert.NotContains(t, info.LastErr, "line")
		release()
		assert.Zero(t, e.awaitState(id, asynq.TaskStateCompleted).Retried)
	})
}

func TestInLineNeedsARedis(t *testing.T) {
	t.Parallel()
	assert.PanicsWithValue(t, "lockbeat: asynqmw.InLine needs the server's Redis, such as an "+
		"asynq.RedisClientOpt", func() { asynqmw.InLine(nil) })
}
