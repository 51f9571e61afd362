package contention_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/embedded"
	"github.com/lockbeat/lockbeat/testutil/redistest"
	"github.com/lockbeat/lockbeat/testutil/suite"
)

// inLine is for rows that hold as well where a task that is refused comes again by itself.
var inLine = adapter{"asynq, in line", openInLine, nil}

// openInLine calls by enqueueing a task at a server of asynq's, which has a Redis of its own. A
// call returns when its task has run, or will not.
func openInLine(t *testing.T, k *renewer.Keeper, wait time.Duration, do work) caller {
	q := newQueue(t, embedded.Run(t).Addr())
	var mu sync.Mutex
	calls := make(map[string]chan result)
	callOf := func(id string) chan result {
		mu.Lock()
		defer mu.Unlock()
		if calls[id] == nil {
			calls[id] = make(chan result, 1)
		}
		return calls[id]
	}
	handler := q.handler(k, do, asynqmw.Wait(wait))
	q.serve(func(ctx context.Context, task *asynq.Task) error {
		err := handler.ProcessTask(ctx, task)
		if notRun, refused := errors.AsType[*asynqmw.NotRunError](err); refused && notRun.InLine {
			return err
		}
		id, _ := asynq.GetTaskID(ctx)
		callOf(id) <- result{outcomeOfTask(t, ctx, err), fmt.Sprint(err)}
		return err
	})
	return func(ctx context.Context, key string) (outcome, string) {
		select {
		case r := <-callOf(q.enqueue(key)):
			return r.outcome, r.words
		case <-ctx.Done():
			return cancelled, ctx.Err().Error()
		}
	}
}

// queue is asynq on one Redis.
type queue struct {
	t      *testing.T
	redis  asynq.RedisClientOpt
	client *asynq.Client
}

func newQueue(t *testing.T, addr string) *queue {
	q := &queue{t: t, redis: asynq.RedisClientOpt{Addr: addr}}
	q.client = asynq.NewClient(q.redis)
	t.Cleanup(func() { _ = q.client.Close() })
	return q
}

// handler does the work of tasks whose key is their payload.
func (q *queue) handler(k *renewer.Keeper, do work, opts ...asynqmw.Option) asynq.Handler {
	key := func(task *asynq.Task) (string, error) { return lockOf(string(task.Payload())), nil }
	opts = append(opts, asynqmw.SharedKey(), asynqmw.InLine(q.redis))
	return recoverTask(asynqmw.Middleware(k, key, opts...)(
		asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error { return do(ctx) })))
}

// serve starts a server of 20 workers. It looks for tasks often, so that a row takes seconds where
// one task after another is woken.
func (q *queue) serve(h asynq.HandlerFunc) {
	server := asynq.NewServer(q.redis, asynqmw.Configure(asynq.Config{
		Concurrency: 20, TaskCheckInterval: 2 * time.Millisecond, LogLevel: asynq.FatalLevel,
	}))
	require.NoError(q.t, server.Start(h))
	q.t.Cleanup(server.Shutdown)
}

func (q *queue) enqueue(key string) (id string) {
	info, err := q.client.Enqueue(asynq.NewTask("transfer", []byte(key)))
	require.NoError(q.t, err)
	return info.ID
}

// Of three that are refused one waits, and the others take no worker. None is sent again.
func TestRefusedTasksComeAgain(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		release := s.holds(key)
		call := s.open(time.Minute, nothing)
		var calls []<-chan result
		for parked := range 3 {
			calls = append(calls, start(s.t.Context(), call, key))
			require.Eventually(s.t, func() bool {
				return s.aCallerWaits() && len(s.placesOfTasks()) == parked
			}, soon, tick)
		}
		assert.Zero(s.t, s.runs.Load())
		released := time.Now()
		release()
		for _, c := range calls {
			r := s.await(c)
			assert.Equal(s.t, done, r.outcome, r.words)
		}
		assert.Less(s.t, time.Since(released), atOnce, "when asynq would bring them back")
		assert.EqualValues(s.t, 3, s.runs.Load())
	}, []adapter{inLine})
}

// placesOfTasks are the IDs of the tasks that stand in line, in order.
func (s *scene) placesOfTasks() []string {
	lines, err := s.redis.Do("KEYS", redisstore.DefaultPrefix+"{"+key+"}:tasks:*").AsStrSlice()
	require.NoError(s.t, err)
	if len(lines) == 0 {
		return nil
	}
	require.Len(s.t, lines, 1)
	ids, err := s.redis.Do("ZRANGE", lines[0], "0", "-1").AsStrSlice()
	require.NoError(s.t, err)
	for i := range ids {
		ids[i] = ids[i][len("default\n"):]
	}
	return ids
}

// rush is what has run of many tasks.
type rush struct {
	came     atomic.Int64 // deliveries of tasks with the hot key
	mu       sync.Mutex
	runs     []string // the IDs of tasks with the hot key, in order
	others   int      // runs of other tasks
	running  int
	overlaps int // runs with the hot key that began while another one ran
}

// serveOn has a server run its tasks: those of the hot key take a moment.
func (r *rush) serveOn(q *queue, k *renewer.Keeper) {
	hot := q.handler(k, func(ctx context.Context) error {
		defer r.begin(ctx)()
		<-time.After(time.Millisecond)
		return nil
	})
	other := q.handler(k, func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.others++
		return nil
	})
	q.serve(func(ctx context.Context, task *asynq.Task) error {
		if string(task.Payload()) == key {
			r.came.Add(1)
			return hot.ProcessTask(ctx, task)
		}
		return other.ProcessTask(ctx, task)
	})
}

func (r *rush) begin(ctx context.Context) (end func()) {
	id, _ := asynq.GetTaskID(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs = append(r.runs, id)
	r.running++
	if r.running > 1 {
		r.overlaps++
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.running--
	}
}

// ran returns how many tasks have run, with the hot key and with others.
func (r *rush) ran() (hot, others int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.runs), r.others
}

// behind counts the tasks that ran after one whose place was behind theirs.
func behind(runs, places []string) (n int) {
	rank := make(map[string]int)
	for i, id := range places {
		rank[id] = i
	}
	last := -1
	for _, id := range runs {
		if rank[id] < last {
			n++
		}
		last = max(last, rank[id])
	}
	return n
}

// All go back to their queue and stand in line there, while tasks of other keys run. Then they are
// woken one after another, in order.
func TestManyTasksOfAHotKey(t *testing.T) {
	t.Parallel()
	tasks := suite.Size(500, 1000)
	others := tasks / 10
	s := &scene{t: t, redis: redistest.Start(t)}
	s.other = s.newKeeper(nodeMark + "holder")
	q := newQueue(t, s.redis.Addr())
	var r rush
	release := s.holds(key)
	for range 2 {
		r.serveOn(q, s.newKeeper(nodeMark+"server"))
	}
	all := []string{q.enqueue(key)}
	require.Eventually(t, s.aCallerWaits, soon, tick)
	for range tasks - 1 {
		all = append(all, q.enqueue(key))
	}
	var places []string
	require.Eventually(t, func() bool {
		places = s.placesOfTasks()
		return len(places) == tasks
	}, soon, tick, "all have a place, the first one too when its moment in a slot is over")

	sendOthers := func() {
		for i := range others {
			q.enqueue(fmt.Sprintf("account:%d", 100+i%10))
		}
	}
	sendOthers()
	require.Eventually(t, func() bool { _, n := r.ran(); return n == others }, soon, tick,
		"all tasks of the hot key want a lock, and those of others are done")
	hot, _ := r.ran()
	require.Zero(t, hot)

	begun, came := time.Now(), r.came.Load()
	release()
	sendOthers()
	require.Eventually(t, func() bool { _, n := r.ran(); return n == 2*others }, soon, tick)
	hot, _ = r.ran()
	assert.Less(t, hot, tasks/2, "when those of others were done")
	require.Eventually(t, func() bool { n, _ := r.ran(); return n >= tasks }, 3*soon, tick)
	came = r.came.Load() - came
	t.Logf("%v, %d of the hot key when those of others were done, %d deliveries",
		time.Since(begun), hot, came)
	s.nothingIsLeft()
	r.mu.Lock()
	defer r.mu.Unlock()
	assert.Less(t, came, int64(3*tasks), "deliveries: however many stand in line, few are woken")
	assert.Zero(t, r.overlaps)
	assert.ElementsMatch(t, all, r.runs, "each of them once")
	assert.LessOrEqual(t, behind(r.runs, places), tasks/100)
}
