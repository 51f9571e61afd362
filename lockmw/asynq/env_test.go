package asynqmw_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/embedded"
	"github.com/lockbeat/lockbeat/testutil/redistest"
	"github.com/lockbeat/lockbeat/testutil/suite"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(processEnv); text != "" {
		os.Exit(beProcess(text))
	}
	suite.AtOnce(6)
	goleak.VerifyTestMain(m, redistest.Lingering()...)
}

const (
	soon = 20 * time.Second // bounds what happens in a second or two
	tick = 10 * time.Millisecond
)

// order is the payload of the tasks.
type order struct{ User string }

func byUser(o order) string { return o.User }

// configured is asynq's configuration as users have it who set nothing of it themselves.
var configured = asynqmw.Configure(asynq.Config{})

// isFailure reports whether a server with that configuration counts an attempt.
func isFailure(err error) bool { return configured.IsFailure(err) }

// env is a Redis that asynq and the locks share.
type env struct {
	t         *testing.T
	option    rueidis.ClientOption
	db        int // asynq's
	client    *asynq.Client
	inspector *asynq.Inspector
}

// everywhere runs a test on a real Redis, and in a long run on the embedded one too, which takes
// more of the processors.
func everywhere(t *testing.T, test func(t *testing.T, e *env)) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		suite.OnlyLong(t)
		test(t, onEmbedded(t))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, newEnv(t, redistest.Start(t).ClientOption()))
	})
}

func onEmbedded(t *testing.T) *env { return newEnv(t, embedded.Run(t).ClientOption()) }

// home is what lines of tasks call the Redis of an env, and the rest what their keys end with.
const (
	home        = "HOME"
	tasksSuffix = ":tasks:" + home
	slotSuffix  = ":slot:" + home
	wokenSuffix = ":woken:" + home
)

func newEnv(t *testing.T, option rueidis.ClientOption) *env {
	e := newDatabase(t, option, 0)
	e.write("SET", asynqmw.HomeKey, home)
	return e
}

// newDatabase is newEnv in a database that has no tasks and no home yet.
func newDatabase(t *testing.T, option rueidis.ClientOption, db int) *env {
	e := &env{t: t, option: option, db: db}
	e.client = asynq.NewClient(e.redis())
	t.Cleanup(func() { _ = e.client.Close() })
	e.inspector = asynq.NewInspector(e.redis())
	t.Cleanup(func() { _ = e.inspector.Close() })
	return e
}

func (e *env) redis() asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Addr: e.option.InitAddress[0], DB: e.db}
}

// write sends a command to the locks' server.
func (e *env) write(command ...string) {
	e.t.Helper()
	client, err := rueidis.NewClient(e.option)
	require.NoError(e.t, err)
	defer client.Close()
	require.NoError(e.t, client.Do(context.Background(),
		client.B().Arbitrary(command...).Build()).Error())
}

// keeper is that of one node, on a connection of its own.
func (e *env) keeper(edit ...func(*renewer.Config)) *renewer.Keeper {
	cfg := renewer.Config{TTL: renewer.DefaultTTL}
	for _, f := range edit {
		f(&cfg)
	}
	option, err := redisstore.ClientOption(e.option, cfg.TTL)
	require.NoError(e.t, err)
	client, err := connect(option)
	require.NoError(e.t, err)
	e.t.Cleanup(client.Close)
	store, err := redisstore.New(client)
	require.NoError(e.t, err)
	e.t.Cleanup(store.Close)
	return newKeeper(e.t, store, cfg)
}

// connect is for a client of locks: a busy machine may not connect one within their write timeout.
func connect(option rueidis.ClientOption) (rueidis.Client, error) {
	client, err := rueidis.NewClient(option)
	for range 20 {
		if err == nil {
			break
		}
		<-time.After(100 * time.Millisecond)
		client, err = rueidis.NewClient(option)
	}
	return client, err
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

// config is fast, quiet and retries what has failed in a second.
func config() asynq.Config {
	return asynq.Config{
		Concurrency: 8, TaskCheckInterval: 20 * time.Millisecond,
		DelayedTaskCheckInterval: 50 * time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration {
			return time.Second
		},
		LogLevel: asynq.FatalLevel,
	}
}

// neverByItself has a task that has failed wait until the inspector runs it.
func neverByItself(cfg *asynq.Config) {
	cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return time.Hour }
}

// serve runs h on a server that ends with the test. It must be called after keeper.
func (e *env) serve(h asynq.Handler, edit ...func(*asynq.Config)) *asynq.Server {
	cfg := config()
	for _, f := range edit {
		f(&cfg)
	}
	server := asynq.NewServer(e.redis(), asynqmw.Configure(cfg))
	require.NoError(e.t, server.Start(h))
	e.t.Cleanup(server.Shutdown)
	return server
}

// enqueue enqueues a task "order" for a user, kept when it is done, and returns its ID.
func (e *env) enqueue(user string, opts ...asynq.Option) string {
	payload, err := json.Marshal(order{User: user})
	require.NoError(e.t, err)
	info, err := e.client.Enqueue(asynq.NewTask("order", payload),
		append([]asynq.Option{asynq.Retention(time.Hour)}, opts...)...)
	require.NoError(e.t, err)
	return info.ID
}

// await waits until the task is in a state for which ok is true.
func (e *env) await(id string, ok func(*asynq.TaskInfo) bool) *asynq.TaskInfo {
	e.t.Helper()
	var last atomic.Pointer[asynq.TaskInfo]
	require.Eventually(e.t, func() bool {
		info, err := e.inspector.GetTaskInfo("default", id)
		last.Store(info)
		return err == nil && ok(info)
	}, soon, tick, "task: %v", printed{&last})
	return last.Load()
}

func (e *env) awaitState(id string, state asynq.TaskState) *asynq.TaskInfo {
	e.t.Helper()
	return e.await(id, func(i *asynq.TaskInfo) bool { return i.State == state })
}

// awaitRefused waits until the task was refused and awaits its return.
func (e *env) awaitRefused(id string) *asynq.TaskInfo {
	e.t.Helper()
	return e.await(id, func(i *asynq.TaskInfo) bool { return i.LastErr != "" })
}

// printed shows a task as it is when it is printed, not before.
type printed struct {
	task *atomic.Pointer[asynq.TaskInfo]
}

func (p printed) String() string { return fmt.Sprintf("%+v", p.task.Load()) }

// hold takes the lock of a user's orders, until the function that it returns is called.
func hold(t *testing.T, k *renewer.Keeper, user string) (release func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	lease, err := k.Acquire(ctx, "order:"+user)
	require.NoError(t, err)
	return func() { require.NoError(t, lease.Release(t.Context())) }
}

// gauge counts who runs at the same time, by user.
type gauge struct {
	running, runs, overlaps atomic.Int64
}

func (g *gauge) enter() {
	g.runs.Add(1)
	if g.running.Add(1) > 1 {
		g.overlaps.Add(1)
	}
}

func (g *gauge) leave() { g.running.Add(-1) }

// work takes d, or less if ctx ends.
func work(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
