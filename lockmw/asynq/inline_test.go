package asynqmw_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// All processes call a database by the name that the first of them has put
// there. What another program has put there is refused.
func TestHome(t *testing.T) {
	t.Parallel()
	e := newDatabase(t, redistest.Start(t), 0)
	id := e.enqueue("u1")
	open := func(e *env) asynqmw.TaskRedis {
		r := asynqmw.NewTaskRedis(e.redis())
		t.Cleanup(func() { assert.NoError(t, r.Close()) })
		return r
	}
	const processes = 4
	homes := make(chan string, processes)
	for range processes {
		r := open(e)
		go func() {
			got, err := r.HomeOf(context.Background(), id)
			assert.NoError(t, err)
			homes <- got
		}()
	}
	got := <-homes
	assert.Regexp(t, "^[A-Z0-9]{20,}$", got)
	for range processes - 1 {
		assert.Equal(t, got, <-homes)
	}
	for _, other := range []string{"}:tasks", "", strings.Repeat("x", 65)} {
		require.NoError(t, e.Do("SET", asynqmw.HomeKey, other).Error())
		_, err := open(e).HomeOf(t.Context(), id)
		require.ErrorIs(t, err, renewer.ErrConfig, "%q", other)
	}
	r := open(e)
	_, err := r.HomeOf(t.Context(), "another")
	require.ErrorIs(t, err, asynqmw.ErrOtherRedis, "it has the queue")
	require.NoError(t, e.Do("SET", "asynq:{default}:t:"+id, "no hash").Error())
	_, err = r.HomeOf(t.Context(), id)
	require.ErrorContains(t, err, "WRONGTYPE")
	_, err = r.StateOf("order:u1", id)
	require.ErrorContains(t, err, "WRONGTYPE", "it does not say that the task is gone")
}

// Only tasks that were refused by the lock in question are run.
func TestStates(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := asynqmw.NewTaskRedis(e.redis())
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	is := func(want jobs.State, id, what string) {
		t.Helper()
		got, err := r.StateOf("order:u1", id)
		require.NoError(t, err)
		assert.Equal(t, want, got, what)
	}
	is(jobs.StateGone, "x", "no queue")
	is(jobs.StateComing, e.enqueue("free"), "pending")
	is(jobs.StateGone, "x", "not in its queue")
	release := hold(t, e.keeper(), "u1")
	defer release()
	proceed, begun := make(chan struct{}), make(chan struct{}, 10)
	h := wrap(byUser, func(_ context.Context, o order) error {
		switch o.User {
		case "fails":
			return fmt.Errorf("no luck")
		case "runs":
			begun <- struct{}{}
			<-proceed
		}
		return nil
	}, lockmw.Refuse(), jobs.RetryIn(time.Hour))
	e.serve(e.keeper(), h, workers(4), alone...)
	defer close(proceed)
	is(jobs.StateWaiting, e.parked("u1"), "refused")
	expires := time.Now().Add(2 * time.Second)
	expired := e.parked("u1", asynq.Deadline(expires))
	is(jobs.StateGone, e.parked("fails"), "failed")
	done := e.enqueue("u2")
	e.awaitState(done, asynq.TaskStateCompleted)
	is(jobs.StateGone, done, "completed")
	archived := e.parked("u1")
	require.NoError(t, e.inspector.ArchiveTask("default", archived))
	is(jobs.StateGone, archived, "archived")
	runs := e.enqueue("runs")
	<-begun
	is(jobs.StateRunning, runs, "active")
	month := asynq.ProcessIn(30 * 24 * time.Hour)
	scheduled := func(headers map[string]string, in asynq.Option) string {
		info, err := e.client.Enqueue(asynq.NewTaskWithHeaders("order", nil, headers), in)
		require.NoError(t, err)
		return info.ID
	}
	copied := map[string]string{"Lockbeat-Origin": "x"}
	is(jobs.StateWaiting, scheduled(copied, asynq.ProcessIn(10*time.Minute)), "a copy")
	is(jobs.StateGone, scheduled(copied, month), "a copy that another program has made")
	is(jobs.StateGone, scheduled(nil, asynq.ProcessIn(time.Minute)), "scheduled")
	<-time.After(time.Until(expires))
	is(jobs.StateGone, expired, "its deadline has passed")
	got, err := r.StateOf("order:u2", e.parked("u1"))
	require.NoError(t, err)
	assert.Equal(t, jobs.StateGone, got, "refused by another lock")
}

// A task whose turn has come ran after all that were enqueued meanwhile, and
// its lock was idle. One that a server has taken already is not put into the
// queue again.
func TestATaskWhoseTurnHasComeOvertakesItsQueue(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := asynqmw.NewTaskRedis(e.redis())
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	called := e.enqueue("u1", asynq.ProcessIn(time.Hour))
	want := []string{called}
	for range 100 {
		want = append(want, e.enqueue("u1"))
	}
	require.NoError(t, r.RunID(called))
	for _, absent := range []string{e.enqueue("u1", asynq.ProcessIn(time.Hour)), "gone"} {
		require.NoError(t, r.OvertakeID(absent))
	}
	pending, err := e.inspector.ListPendingTasks("default", asynq.PageSize(200))
	require.NoError(t, err)
	var got []string
	for _, info := range pending {
		got = append(got, info.ID)
	}
	assert.Equal(t, want, got)
}
