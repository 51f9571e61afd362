package asynqmw_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestMain(m *testing.M) {
	suite.AtOnce(8)
	goleak.VerifyTestMain(m, redistest.Lingering()...)
}

const (
	soon = 20 * time.Second // bounds what happens in a second or two
	tick = 10 * time.Millisecond
)

// order is the payload of the tasks.
type order struct{ User string }

func byUser(o order) string { return lockmw.Key("order", o.User) }

func nothing(context.Context, order) error { return nil }

func task(payload string) *asynq.Task { return asynq.NewTask("order", []byte(payload)) }

// configured is asynq's configuration as users have it who set nothing of it
// themselves.
var configured = configure(asynq.Config{})

// configure is asynqmw.Configure, without its locks.
func configure(cfg asynq.Config) asynq.Config {
	_, cfg = asynqmw.Configure(new(renewer.Keeper), asynq.RedisClientOpt{}, cfg)
	return cfg
}

// alone are servers whose tasks neither stand in line nor are copied.
var alone = []asynqmw.ServerOption{asynqmw.NoLine(), asynqmw.NoCopies()}

// wrap is asynqmw.Wrap, for serve.
func wrap[N lockmw.Name](
	key func(order) N, fn func(context.Context, order) error, opts ...jobs.Option,
) func(*asynqmw.Locks) asynq.Handler {
	return func(l *asynqmw.Locks) asynq.Handler { return asynqmw.Wrap(l, key, fn, opts...) }
}

// isFailure reports whether a server with that configuration counts an attempt.
func isFailure(err error) bool { return configured.IsFailure(err) }

// scripted returns a keeper on a store that records what it is asked.
func scripted(t *testing.T) (*renewer.Keeper, *script.Store) {
	store := script.New()
	return newKeeper(t, store, renewer.Config{TTL: renewer.DefaultTTL}), store
}

func newKeeper(t *testing.T, store renewer.Store, cfg renewer.Config) *renewer.Keeper {
	k, err := renewer.New(store, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), soon)
		defer cancel()
		_ = k.Shutdown(ctx)
	})
	return k
}

// env is a Redis for tasks, for locks, or for both.
type env struct {
	*redistest.Server

	t         *testing.T
	db        int // asynq's
	client    *asynq.Client
	inspector *asynq.Inspector
}

func newEnv(t *testing.T) *env {
	t.Helper()
	return newDatabase(t, redistest.Start(t), 0)
}

func newDatabase(t *testing.T, server *redistest.Server, db int) *env {
	e := &env{Server: server, t: t, db: db}
	e.client = asynq.NewClient(e.redis())
	t.Cleanup(func() { _ = e.client.Close() })
	e.inspector = asynq.NewInspector(e.redis())
	t.Cleanup(func() { _ = e.inspector.Close() })
	return e
}

func (e *env) redis() asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Addr: e.Addr(), DB: e.db}
}

// keeper is that of one node, on a connection of its own.
func (e *env) keeper(edit ...func(*renewer.Config)) *renewer.Keeper {
	cfg := renewer.Config{TTL: renewer.DefaultTTL}
	for _, f := range edit {
		f(&cfg)
	}
	deployment := redisstore.Deployment{Option: e.ClientOption(), TTL: cfg.TTL}
	var store *redisstore.Store
	require.Eventually(e.t, func() bool { // a busy machine may not connect it in time
		var err error
		store, err = redisstore.Open(e.t.Context(), deployment)
		return err == nil
	}, soon, tick)
	e.t.Cleanup(store.Close)
	return newKeeper(e.t, store, cfg)
}

// workers is a configuration that is fast, quiet and retries in an hour what
// has failed.
func workers(n int) asynq.Config {
	return asynq.Config{
		Concurrency: n, DelayedTaskCheckInterval: 50 * time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
		LogLevel:       asynq.FatalLevel,
	}
}

// serve runs what handle makes of the locks of k on a server that ends with the
// test.
func (e *env) serve(
	k *renewer.Keeper, handle func(*asynqmw.Locks) asynq.Handler, cfg asynq.Config,
	opts ...asynqmw.ServerOption,
) *asynq.Server {
	return e.serveBy(k, e.redis(), handle, cfg, opts...)
}

// serveBy is serve with another Redis for Configure.
func (e *env) serveBy(
	k *renewer.Keeper, redis asynq.RedisConnOpt, handle func(*asynqmw.Locks) asynq.Handler,
	cfg asynq.Config, opts ...asynqmw.ServerOption,
) *asynq.Server {
	locks, cfg := asynqmw.Configure(k, redis, cfg, opts...)
	e.t.Cleanup(func() { assert.NoError(e.t, locks.Close()) })
	return e.start(handle(locks), cfg)
}

func (e *env) start(h asynq.Handler, cfg asynq.Config) *asynq.Server {
	server := asynq.NewServer(e.redis(), cfg)
	require.NoError(e.t, server.Start(h))
	e.t.Cleanup(server.Shutdown)
	return server
}

// enqueue enqueues a task "order" for a user, kept when it is done, and returns
// its ID.
func (e *env) enqueue(user string, opts ...asynq.Option) string {
	payload, err := json.Marshal(order{User: user})
	require.NoError(e.t, err)
	info, err := e.client.Enqueue(asynq.NewTask("order", payload),
		append([]asynq.Option{asynq.Retention(time.Hour)}, opts...)...)
	require.NoError(e.t, err)
	return info.ID
}

// await waits until the task is in a state for which ok is true.
func (e *env) await(id string, ok func(*asynq.TaskInfo) bool) (info *asynq.TaskInfo) {
	e.t.Helper()
	found := assert.Eventually(e.t, func() bool {
		got, err := e.inspector.GetTaskInfo("default", id)
		info = got
		return err == nil && ok(got)
	}, soon, tick)
	require.True(e.t, found, "task: %+v", info)
	return info
}

func (e *env) awaitState(id string, state asynq.TaskState) *asynq.TaskInfo {
	e.t.Helper()
	return e.await(id, func(i *asynq.TaskInfo) bool { return i.State == state })
}

// awaitRefused waits until the task was refused, and returns it.
func (e *env) awaitRefused(id string) *asynq.TaskInfo {
	e.t.Helper()
	return e.await(id, func(i *asynq.TaskInfo) bool { return i.LastErr != "" })
}

// parked enqueues a task of a user's, and waits until that was refused and has
// left its worker.
func (e *env) parked(user string, opts ...asynq.Option) (id string) {
	e.t.Helper()
	id = e.enqueue(user, opts...)
	e.await(id, func(i *asynq.TaskInfo) bool {
		return i.LastErr != "" && i.State == asynq.TaskStateRetry
	})
	return id
}

// awaitDone waits until n tasks are completed, uncounted, and there are no
// others.
func (e *env) awaitDone(n int) {
	e.t.Helper()
	require.Eventually(e.t, func() bool {
		queue, err := e.inspector.GetQueueInfo("default")
		return err == nil && queue.Completed == n && queue.Size == n
	}, soon, tick, "all done, and none left over")
	done, err := e.inspector.ListCompletedTasks("default", asynq.PageSize(n))
	require.NoError(e.t, err)
	for _, info := range done {
		assert.Zero(e.t, info.Retried)
	}
}

// hold takes the lock of a user's orders, until the function that it returns is
// called.
func hold(t *testing.T, k *renewer.Keeper, user string) (release func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	lease, err := k.Acquire(ctx, renewer.Request{Name: "order:" + user, Operation: "fulfil"})
	require.NoError(t, err)
	return func() { require.NoError(t, lease.Release(t.Context())) }
}

// record is what handlers have run.
type record struct {
	mu  sync.Mutex
	ids []string // of tasks, in order of their runs
}

// handler has tasks of any user take d, and records them.
func (r *record) handler(
	d time.Duration, opts ...jobs.Option,
) func(*asynqmw.Locks) asynq.Handler {
	return wrap(byUser, func(ctx context.Context, _ order) error {
		id, _ := asynq.GetTaskID(ctx)
		r.mu.Lock()
		r.ids = append(r.ids, id)
		r.mu.Unlock()
		<-time.After(d)
		return nil
	}, opts...)
}

// ran are the tasks that have run so far.
func (r *record) ran() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ids)
}

// faults hears what a keeper's observer is told of trouble in the background.
type faults struct {
	renewer.NopObserver

	told chan renewer.Fault
}

func (f faults) Fault(e renewer.Fault) { f.told <- e }
