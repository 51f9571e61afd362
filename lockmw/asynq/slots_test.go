package asynqmw_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestHowManyTasksWaitInSlots(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		workers int
		half    int // with attempts to spare, of many keys
		few     int // of one key
		last    int // on their last attempt, beside those
	}{
		{workers: 1, half: 0, few: 0, last: 1},
		{workers: 2, half: 1, few: 1, last: 1},
		{workers: 8, half: 4, few: 1, last: 4},
		{workers: 20, half: 10, few: 2, last: 10},
		{workers: 100, half: 50, few: 12, last: 50},
	} {
		t.Run(fmt.Sprint(c.workers, " workers"), func(t *testing.T) {
			t.Parallel()
			fill := func(s asynqmw.Slots, last bool, name func(i int) string) (n int) {
				for i := range c.workers {
					if s.Take(nil, name(i), last) {
						n++
					}
				}
				return n
			}
			each := func(i int) string { return fmt.Sprint("u", i) }
			one := func(int) string { return "u1" }
			s := asynqmw.NewSlots(c.workers)
			assert.Equal(t, c.half, fill(s, false, each))
			assert.Equal(t, c.last, fill(s, true, each))
			assert.Zero(t, fill(s, false, each))
			for i := range c.last {
				s.Leave(nil, each(i), true)
			}
			for i := range c.half {
				s.Leave(nil, each(i), false)
			}
			assert.Zero(t, s.Names())

			assert.Equal(t, c.few, fill(s, false, one))
			assert.Equal(t, 1, fill(s, true, one), "whatever waits")
		})
	}
	assert.Equal(t, runtime.NumCPU()/2 > 0, asynqmw.NewSlots(0).Take(nil, "u1", false),
		"asynq's default is a worker for each processor")
	s := asynqmw.NewSlots(8)
	k, _ := scripted(t)
	assert.True(t, s.Take(nil, "u1", false))
	assert.True(t, s.Take(k, "u1", false), "of another store's locks")
}

// asked counts how often the tasks of a server have asked for locks.
type asked struct {
	renewer.NopObserver
	atomic.Int32
}

func (a *asked) AcquireStart(ctx context.Context, _ renewer.AcquireStart) context.Context {
	a.Add(1)
	return ctx
}

// crowd is a server of eight workers.
func crowd(e *env, opts ...asynqmw.HandleOption) *asked {
	a := new(asked)
	k := e.keeper(func(cfg *renewer.Config) { cfg.Observer = a })
	e.serve(asynqmw.Handle(k, byUser, func(context.Context, order) error {
		return nil
	}, opts...), func(cfg *asynq.Config) { cfg.Concurrency = 8 })
	return a
}

// waits enqueues a task of a user whose lock is held, the first of a crowd, and returns once that
// waits in its worker's slot: it was refused, and asks again.
func (a *asked) waits(e *env, user string, opts ...asynq.Option) (id string) {
	e.t.Helper()
	id = e.enqueue(user, opts...)
	require.Eventually(e.t, func() bool { return a.Load() == 2 }, soon, tick)
	return id
}

// states counts the tasks that are in a state.
func (e *env) states(ids []string, state asynq.TaskState) (n int) {
	for _, id := range ids {
		info, err := e.inspector.GetTaskInfo("default", id)
		require.NoError(e.t, err)
		if info.State == state {
			n++
		}
	}
	return n
}

// Tasks that waited for busy locks, as they were told to, used to take all workers, so that a task
// whose lock was free waited for as long.
func TestAtMostHalfOfTheWorkersWait(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]asynqmw.HandleOption{
		"by default": nil,
		"by Wait":    {asynqmw.Wait(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, e *env) {
				holder := e.keeper()
				var releases []func()
				var ids []string
				for i := range 4 {
					releases = append(releases, hold(t, holder, fmt.Sprint("u", i)))
				}
				crowd(e, opts...)
				for i := range 16 {
					ids = append(ids, e.enqueue(fmt.Sprint("u", i%4)))
				}
				require.Eventually(t, func() bool {
					return e.states(ids, asynq.TaskStateActive) == 4 &&
						e.states(ids, asynq.TaskStatePending) == 0
				}, soon, tick, "four wait, the others went back")
				e.awaitState(e.enqueue("free"), asynq.TaskStateCompleted)
				for _, release := range releases {
					release()
				}
				for _, id := range ids {
					assert.Zero(t, e.awaitState(id, asynq.TaskStateCompleted).Retried)
				}
			})
		})
	}
}

// The next task of a key waits where it is, so that the lock is not idle until the others are back.
func TestOneTaskOfAKeyWaitsByDefault(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, e *env) {
		release := hold(t, e.keeper(), "u1")
		all := crowd(e)
		begun := time.Now()
		waits := all.waits(e, "u1")
		info := e.awaitRefused(e.enqueue("u1"))
		assert.Zero(t, info.Retried)
		release()
		tired := time.Since(begun) > asynqmw.DefaultWait/2 // on a busy machine
		lastErr := e.awaitState(waits, asynq.TaskStateCompleted).LastErr
		assert.True(t, tired || lastErr == "", lastErr)
	})
}

// Eight tasks of a busy user, each on its only attempt, used to keep all
// other users out for as long as they waited.
func TestOneTaskOfAKeyWaitsOnItsLastAttempt(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, e *env) {
		release := hold(t, e.keeper(), "u1")
		waits := crowd(e, asynqmw.Wait(0)).waits(e, "u1", asynq.MaxRetry(0))
		for range 8 {
			info := e.awaitState(e.enqueue("u1", asynq.MaxRetry(0)), asynq.TaskStateArchived)
			assert.Contains(t, info.LastErr, "lockbeat: task not run on its last attempt, since ")
			assert.Contains(t, info.LastErr, "asynqmw.Requeue")
			assert.Contains(t, info.LastErr, "held by another owner")
		}
		e.awaitState(e.enqueue("u2", asynq.MaxRetry(0)), asynq.TaskStateCompleted)
		release()
		e.awaitState(waits, asynq.TaskStateCompleted)
	})
}

// Of tasks that come in the same moment one has the lock. Those for which it is
// free take no room from the one that has to wait.
func TestTasksOnTheirLastAttemptThatComeTogether(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, e *env) {
		const workers = 16 // half of them run, half wait: there is no room for more
		var ids []string
		for i := range workers {
			ids = append(ids, e.enqueue(fmt.Sprint("u", i/2), asynq.MaxRetry(0)))
		}
		e.serve(asynqmw.Handle(e.keeper(), byUser, func(ctx context.Context, _ order) error {
			work(ctx, 20*time.Millisecond)
			return nil
		}), func(cfg *asynq.Config) { cfg.Concurrency = workers })
		for _, id := range ids {
			e.awaitState(id, asynq.TaskStateCompleted)
		}
	})
}

func TestARefusalSaysWhenTheTaskIsBack(t *testing.T) {
	t.Parallel()
	e := onEmbedded(t)
	release := hold(t, e.keeper(), "u1")
	refusals := make(chan error, 10)
	h := asynqmw.Handle(e.keeper(), byUser, func(context.Context, order) error { return nil },
		asynqmw.Wait(0))
	e.serve(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		err := h.ProcessTask(ctx, task)
		refusals <- err
		return err
	}), func(cfg *asynq.Config) {
		cfg.TaskCheckInterval, cfg.DelayedTaskCheckInterval = 0, 4*time.Second
	})
	id := e.enqueue("u1")
	var refused *asynqmw.NotRunError
	require.ErrorAs(t, <-refusals, &refused)
	require.ErrorIs(t, refused, renewer.ErrHeld)
	assert.Equal(t, 4*time.Second+asynqmw.DefaultTaskCheckInterval*3/2, refused.Late)
	at, latest := time.Now(), refused.RetryIn+refused.Late
	assert.Contains(t, e.awaitRefused(id).LastErr, " to "+latest.Round(time.Millisecond).String())
	release()
	require.NoError(t, <-refusals)
	assert.Less(t, time.Since(at), latest+2*time.Second, "a busy machine may be late")
}

// served is the context of a task on a configured server of eight workers.
func served(t *testing.T) context.Context {
	base := asynqmw.Configure(asynq.Config{Concurrency: 8}).BaseContext()
	ctx, cancel := context.WithCancel(base)
	t.Cleanup(cancel)
	return ctx
}

// A task that went back after its wait leaves its room to the next, and so does one that runs.
func TestRoomInSlotsIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, store := scripted(t)
		ctx, done := served(t), make(chan struct{})
		h := asynqmw.Handle(k, byUser, func(context.Context, order) error {
			<-done
			return nil
		})
		for i := range 8 {
			payload := fmt.Sprintf(`{"User":"%d"}`, i)
			go func() { assert.NoError(t, h.ProcessTask(ctx, task(payload))) }()
		}
		synctest.Wait()
		store.Overwrite("order:u1", renewer.Holder{}, time.Hour)
		for range 8 {
			begun := time.Now()
			err := h.ProcessTask(ctx, task(`{"User":"u1"}`))
			require.ErrorIs(t, err, renewer.ErrHeld)
			assert.Equal(t, asynqmw.DefaultWait, time.Since(begun))
		}
		close(done)
		synctest.Wait()
	})
}

// A store that takes longer than DefaultWait to answer still runs tasks.
func TestDefaultWaitLeavesTheStoreItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := script.New()
		store.Script(script.Acquire, script.Pass().Late(2*asynqmw.DefaultWait))
		k := newKeeper(t, store, renewer.Config{TTL: renewer.DefaultTTL})
		h := asynqmw.Handle(k, byUser, func(context.Context, order) error { return nil })
		require.NoError(t, h.ProcessTask(served(t), task(`{"User":"u1"}`)))
	})
}
