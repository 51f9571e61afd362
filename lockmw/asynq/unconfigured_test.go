package asynqmw_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
)

// faults records what a keeper's observer is told of trouble in the background.
type faults struct {
	renewer.NopObserver

	mu  sync.Mutex
	all []renewer.Fault
}

func (f *faults) Fault(e renewer.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, e)
}

func (f *faults) told() []renewer.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all
}

// plain runs h on a server whose config is not decorated, and which retries nothing by itself.
func (e *env) plain(h asynq.Handler) {
	cfg := config()
	neverByItself(&cfg)
	server := asynq.NewServer(e.redis(), cfg)
	require.NoError(e.t, server.Start(h))
	e.t.Cleanup(server.Shutdown)
}

// The task's error used to say "with no attempt used up" while asynq counted one.
func TestARefusalOnAnUnconfiguredServerSaysThatItCounts(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, e *env) {
		var heard faults
		k := e.keeper(func(cfg *renewer.Config) { cfg.Observer = &heard })
		release := hold(t, e.keeper(), "u1")
		e.plain(asynqmw.Handle(k, byUser, func(context.Context, order) error { return nil }))
		id := e.enqueue("u1")
		info := e.awaitRefused(id)
		assert.Equal(t, 1, info.Retried)
		assert.Contains(t, info.LastErr, "lockbeat: task not run, and an attempt is used up: ")
		assert.Contains(t, info.LastErr, "asynqmw.Configure")
		assert.NotContains(t, info.LastErr, "no attempt used up")
		release()
		require.NoError(t, e.inspector.RunTask("default", id))
		e.awaitState(id, asynq.TaskStateCompleted)
		for _, user := range []string{"u2", "u3"} {
			e.awaitState(e.enqueue(user), asynq.TaskStateCompleted)
		}
		told := heard.told()
		require.Len(t, told, 1, "once a handler")
		assert.Equal(t, "configure asynq", told[0].Doing)
		require.ErrorIs(t, told[0].Err, asynqmw.ErrNotConfigured)
		require.ErrorIs(t, told[0].Err, renewer.ErrConfig, "it is not the store's fault")
		assert.ErrorContains(t, told[0].Err, "asynqmw.Configure: each refusal uses up an attempt")
		assert.Empty(t, told[0].Name, "all tasks are concerned")
	})
}

// It is told with the first task, before two of them have met.
func TestAnUnconfiguredServerIsToldOfBeforeTasksMeet(t *testing.T) {
	t.Parallel()
	e := onEmbedded(t)
	var heard faults
	k := e.keeper(func(cfg *renewer.Config) { cfg.Observer = &heard })
	key := func(*asynq.Task) (string, error) { return "u1", nil }
	e.plain(asynqmw.Middleware(k, key)(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		return nil
	})))
	e.awaitState(e.enqueue("u1"), asynq.TaskStateCompleted)
	require.Len(t, heard.told(), 1)
}

type baseKey struct{}

// The base context is decorated as the rest is: what the user has of their own stays.
func TestAConfiguredServerIsKnownByItsBaseContext(t *testing.T) {
	t.Parallel()
	own := context.WithValue(t.Context(), baseKey{}, "theirs")
	for name, base := range map[string]func() context.Context{"their own": func() context.Context {
		return own
	}, "asynq's": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := onEmbedded(t)
			var heard faults
			k := e.keeper(func(cfg *renewer.Config) { cfg.Observer = &heard })
			release := hold(t, e.keeper(), "u1")
			defer release()
			seen := make(chan any, 1)
			e.serve(asynqmw.Handle(k, byUser, func(ctx context.Context, _ order) error {
				seen <- ctx.Value(baseKey{})
				return nil
			}), func(cfg *asynq.Config) { cfg.BaseContext = base })
			info := e.awaitRefused(e.enqueue("u1"))
			assert.Zero(t, info.Retried)
			assert.Contains(t, info.LastErr, "with no attempt used up")
			e.enqueue("u2")
			select {
			case got := <-seen:
				assert.Equal(t, base != nil, got == "theirs")
			case <-time.After(soon):
				require.Fail(t, "the handler does not run")
			}
			assert.Empty(t, heard.told())
		})
	}
}
