package asynqmw_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/redistest"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A holder that is no task, and knows nothing of the line, works for longer
// than a task waits in its slot. The tasks are called when it releases the
// lock, and not before, in order. Their last error says who has the lock, and
// how many are before them.
func TestTasksInLineBehindAnotherKindOfHolder(t *testing.T) {
	t.Parallel()
	queues, locks := apart(t)
	var r record
	release := hold(t, locks.keeper(func(cfg *renewer.Config) { cfg.Node = "holder-1" }), "u1")
	var counts [2]inLine // as metrics have them
	for i := range counts {
		k := locks.keeper(func(cfg *renewer.Config) { cfg.Observer = &counts[i] })
		queues.serve(k, r.handler(0), workers(4))
	}
	awaitCount := func(n int64) {
		t.Helper()
		require.Eventually(t, func() bool { return max(counts[0].Load(), counts[1].Load()) == n },
			soon, tick, "%d stand in line", n)
	}
	first := queues.enqueue("u1")
	locks.awaitSlot("u1")
	ids := []string{first}
	// Both processes have heard of the line then: one that has not does not ask
	// it.
	for i := 0; i < 3 || min(counts[0].Load(), counts[1].Load()) == 0; i++ {
		ids = append(ids, queues.parked("u1"))
		assert.Regexp(t, fmt.Sprintf(`it stands in line, and comes back when its turn is near, or `+
			`in about 1\d.*held by another owner; last seen with holder-1 pid \d+ `+
			`\(fulfil\), for [\d.]+m?s by then: %d before it in line`, i),
			queues.awaitRefused(ids[i+1]).LastErr)
	}
	queues.awaitState(first, asynq.TaskStateRetry)
	require.Eventually(t, func() bool {
		keys := locks.keysOf("u1")
		return slices.Contains(keys, leaseOf("u1")+":waiters") &&
			!slices.Contains(keys, leaseOf("u1")+slotSuffix)
	}, soon, tick, "the process waits for the first, and no task in its slot")
	all := len(ids)
	awaitCount(int64(all))
	quiet := queues.delivered(ids)
	require.Never(t, func() bool { return queues.delivered(ids) != quiet }, time.Second, tick)
	begun := time.Now()
	release()
	ran := r.await(t, all, goesOn)
	if time.Since(begun) < time.Second { // else one may have been passed over
		assert.Equal(t, ids, ran)
	}
	assert.ElementsMatch(t, ids, ran)
	awaitCount(0)
}

// inLine counts the tasks that a process knows to stand in line.
type inLine struct {
	renewer.NopObserver
	atomic.Int64
}

func (c *inLine) TasksInLine(e renewer.TasksInLine) { c.Add(int64(e.Change)) }

// delivered sums up when tasks were refused last.
func (e *env) delivered(ids []string) (at int64) {
	for _, id := range ids {
		info, err := e.inspector.GetTaskInfo("default", id)
		require.NoError(e.t, err)
		at += info.LastFailedAt.Unix()
	}
	return at
}

// place gives a task the last place in u1's line.
func (e *env) place(id string) {
	e.t.Helper()
	require.NoError(e.t, e.Do("ZADD", leaseOf("u1")+tasksSuffix,
		strconv.FormatInt(time.Now().UnixMicro(), 10), "default\n"+id).Error())
}

// The first in line are deleted and archived by hand, or have gone long ago, or
// were completed, or were never refused for the lock: another program has
// written them there.
func TestTasksInLineThatAreGone(t *testing.T) {
	t.Parallel()
	queues, locks := apart(t)
	var r record
	queues.serve(locks.keeper(), r.handler(0), workers(4))
	done := queues.enqueue("u1")
	queues.awaitState(done, asynq.TaskStateCompleted)
	release := hold(t, locks.keeper(), "u1")
	waits := queues.enqueue("u1")
	locks.awaitSlot("u1")
	later := queues.enqueue("u1", asynq.ProcessIn(time.Hour))
	locks.place(later)
	locks.place(done)
	for i := range 100 {
		locks.place(fmt.Sprint("gone ", i))
	}
	var ids []string
	for range 5 {
		ids = append(ids, queues.parked("u1"))
	}
	require.NoError(t, queues.inspector.DeleteTask("default", ids[0]))
	require.NoError(t, queues.inspector.ArchiveTask("default", ids[1]))
	require.NoError(t, queues.inspector.DeleteTask("default", ids[2]))
	release()
	assert.ElementsMatch(t, []string{done, waits, ids[3], ids[4]}, r.await(t, 4, goesOn))
	require.Eventually(t, func() bool { return len(locks.keysOf("u1")) == 0 }, soon, tick)
	queues.awaitState(ids[1], asynq.TaskStateArchived)
	queues.awaitState(later, asynq.TaskStateScheduled)
	queues.awaitState(done, asynq.TaskStateCompleted)
}

// The processes of the holder, and of the task that waits in its slot, have
// died.
func TestTasksInLineBehindTheDead(t *testing.T) {
	t.Parallel()
	queues, locks := apart(t)
	var r record
	queues.serve(locks.keeper(), r.handler(0), workers(4))
	const ttl = "2000" // ms
	require.NoError(t, locks.Do("SET", leaseOf("u1"), "dead", "PX", ttl).Error())
	require.NoError(t, locks.Do("SET", leaseOf("u1")+slotSuffix, "default\ndead", "PX",
		ttl).Error())
	ids := []string{queues.parked("u1"), queues.parked("u1"), queues.parked("u1")}
	assert.ElementsMatch(t, ids, r.await(t, 3, goesOn))
}

// Without copies a task on its last attempt can't go back: it waits in its
// slot, and others stand in line.
func TestLastAttemptInLine(t *testing.T) {
	t.Parallel()
	queues, locks := apart(t)
	var r record
	release := hold(t, locks.keeper(), "u1")
	queues.serve(locks.keeper(), r.handler(0), workers(8), asynqmw.NoCopies())
	last := queues.enqueue("u1", asynq.MaxRetry(0), asynq.Timeout(10*time.Minute))
	queues.awaitState(last, asynq.TaskStateActive)
	next := queues.parked("u1") // after its moment in a slot
	release()
	assert.Equal(t, []string{last, next}, r.await(t, 2, goesOn))
}

// Two asynq databases share a lock, and have tasks of the same queue and IDs.
// Each took the other's tasks out of the line, since it does not have them: the
// lock was idle for a TTL.
func TestTasksOfTwoDatabasesThatShareALock(t *testing.T) {
	t.Parallel()
	const tasks = 15
	locks := newEnv(t)
	databases := []*env{newDatabase(t, locks.Server, 1), newDatabase(t, redistest.Start(t), 2)}
	var r record
	for _, e := range databases {
		for i := range tasks {
			e.enqueue("u1", asynq.TaskID(fmt.Sprint(i)))
		}
	}
	begun := time.Now()
	for _, e := range databases {
		e.serve(locks.keeper(), r.handler(20*time.Millisecond), workers(10))
	}
	for _, e := range databases {
		e.awaitDone(tasks)
	}
	assert.Less(t, time.Since(begun), goesOn) // by itself none comes before the TTL is over
	assert.Zero(t, r.overlaps)
}

// A store without lines of tasks: contended tasks are as by NoLine.
func TestAStoreWithoutLines(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var r record
	k := newKeeper(t, memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	release := hold(t, k, "u1")
	e.serve(k, r.handler(0, lockmw.Refuse()), workers(4))
	assert.NotContains(t, e.awaitRefused(e.enqueue("u1")).LastErr, "line")
	release()
	e.awaitDone(1)
}

// Another database of the server's Redis, or another Redis: the operator is
// told, once, and tasks are as by NoLine. They used to lose their places
// without a word.
func TestAnotherRedisThanTheServersIsToldOf(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	other := e.redis()
	other.DB = 1
	var heard faults
	var r record
	release := hold(t, e.keeper(), "u1")
	e.serveBy(e.keeper(heard.observe), other, r.handler(0, lockmw.Wait(tick)), workers(4))
	for _, id := range []string{e.enqueue("u1"), e.enqueue("u1"), e.enqueue("u1")} {
		assert.NotContains(t, e.awaitRefused(id).LastErr, "it stands in line")
	}
	assert.NotContains(t, strings.Join(e.keysOf("u1"), " "), ":tasks", "none has a place")
	release()
	e.awaitDone(3)
	told := heard.told(t)
	require.Len(t, told, 1)
	assert.Equal(t, "wake tasks in line", told[0].Doing)
	require.ErrorIs(t, told[0].Err, asynqmw.ErrOtherRedis)
	require.ErrorIs(t, told[0].Err, renewer.ErrConfig)
}

// The rights to wake tasks, or to keep their places, are taken away
// while tasks stand in line: they come back by themselves, within the
// TTL and a tenth of a second for each, and the operator is told.
func TestRightsAreTakenAwayWhileTasksStandInLine(t *testing.T) {
	t.Parallel()
	for who, rights := range map[string]string{
		"queues": "-@all",
		"locks":  "-zadd -zrem -zrange -zrank -zcard -zscore -hset -hdel -hgetall -exists",
	} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			acl := func(rules string) {
				require.NoError(t, e.Do(append([]string{"ACL", "SETUSER", who},
					strings.Fields(rules)...)...).Error())
			}
			acl("on >secret ~* &* +@all")
			redis, locks := e.redis(), e.ClientOption()
			if who == "locks" {
				locks.Username, locks.Password = who, "secret"
			} else {
				redis.Username, redis.Password = who, "secret"
			}
			var heard faults
			var r record
			const ttl = 2 * time.Second
			k := e.keeperAs(locks, heard.observe, func(cfg *renewer.Config) { cfg.TTL = ttl })
			release := hold(t, e.keeper(), "u1")
			e.serveBy(k, redis, r.handler(0), workers(8))
			for range 3 {
				e.parked("u1")
			}
			acl(rights)
			release()
			e.awaitDone(3)
			told := heard.told(t)
			require.NotEmpty(t, told)
			assert.Equal(t, "wake tasks in line", told[0].Doing)
			assert.Regexp(t, "NOPERM|can't run this command|ACL failure", told[0].Err)
		})
	}
}

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
	_, err := open(e).HomeOf(t.Context(), "another")
	require.ErrorIs(t, err, asynqmw.ErrOtherRedis, "it has the queue")
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

// A process of this version finds the refusals of others by this mark: it must
// stay as it is.
func TestTheMarkOfARefusalStaysAsItIs(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	store.Script(script.Acquire, script.Taken(contract.Holder{}, time.Minute))
	h := asynqmw.Wrap(asynqmw.ForTest(k), byUser, nothing)
	err := h.ProcessTask(t.Context(), task(`{"User":"u1"}`))
	require.ErrorIs(t, err, renewer.ErrBusy)
	// printf %s order:u1 | sha256sum | cut -c1-16
	require.ErrorContains(t, err, " [lock_hash=cb852bbdd57ddcf3]")
	assert.NotContains(t, renewer.ErrorText(err), "lock_hash", "there may be a secret for logs")
}
