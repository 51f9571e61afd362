package asynqmw_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// inMemory runs a test in a bubble, with a keeper of limits.
func inMemory(t *testing.T, test func(t *testing.T, k *renewer.Keeper)) {
	synctest.Test(t, func(t *testing.T) {
		k, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
		require.NoError(t, err)
		test(t, k)
		require.NoError(t, k.Shutdown(context.Background()))
	})
}

// Three tasks of a user run at once, and a fourth is refused, uncounted: by an option, by the key,
// and by the wider one of two limits. Limits have the task's type before their names, too.
func TestAtMost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key  string
		full string
		opts []asynqmw.Option
	}{
		"option":     {"u1", "order:u1", []asynqmw.Option{asynqmw.AtMost(3)}},
		"key":        {lockmw.Limit("u1", 3), "order:u1", nil},
		"shared key": {lockmw.Limit("u1", 3), "u1", []asynqmw.Option{asynqmw.SharedKey()}},
		"the first of two": {
			lockmw.Limits(lockmw.Limit("u1", 3), lockmw.Limit("tenant", 4)), "order:u1", nil,
		},
		"the second of two": {
			lockmw.Limits(lockmw.Limit("u1", 4), lockmw.Limit("tenant", 3)), "order:tenant", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inMemory(t, func(t *testing.T, k *renewer.Keeper) {
				proceed := make(chan struct{})
				h := asynqmw.Handle(k, func(order) string { return c.key },
					func(ctx context.Context, _ order) error {
						assert.True(t, lockmw.Held(ctx, lockmw.Limit(c.full, 3)))
						assert.False(t, lockmw.Held(ctx, c.full), "a lock is another thing")
						<-proceed
						return nil
					}, append(c.opts, asynqmw.Wait(time.Second))...)
				var running sync.WaitGroup
				for range 3 {
					running.Go(func() { assert.NoError(t, h.ProcessTask(t.Context(), task("{}"))) })
				}
				synctest.Wait()
				begun := time.Now()
				err := h.ProcessTask(t.Context(), task("{}"))
				assert.Equal(t, time.Second, time.Since(begun), "it waits as for a lock")
				var notRun *asynqmw.NotRunError
				require.ErrorAs(t, err, &notRun)
				assert.Positive(t, notRun.RetryIn)
				assert.False(t, isFailure(err))
				var full *renewer.Error
				require.ErrorAs(t, err, &full)
				assert.Equal(t, []any{c.full, 3, 3}, []any{full.Name, full.Limit, full.Held})
				assert.ErrorContains(t, err, "[lock_hash="+renewer.HashName(c.full, nil)+"]",
					"the same on all servers")
				close(proceed)
				running.Wait()
			})
		})
	}
}

// A limit that is closed refuses at once, uncounted, and keeps no worker.
func TestClosedLimit(t *testing.T) {
	t.Parallel()
	inMemory(t, func(t *testing.T, k *renewer.Keeper) {
		for _, opt := range []asynqmw.Option{
			asynqmw.AtMost(0),
			asynqmw.AtMostFunc(func(name string) int {
				assert.Equal(t, "order:u1", name)
				return 0
			}),
		} {
			h := asynqmw.Handle(k, byUser, nothing, opt, asynqmw.RetryIn(time.Minute))
			begun := time.Now()
			err := h.ProcessTask(t.Context(), task(`{"User":"u1"}`))
			assert.Zero(t, time.Since(begun))
			require.ErrorIs(t, err, renewer.ErrClosed)
			assert.False(t, isFailure(err))
			var notRun *asynqmw.NotRunError
			require.ErrorAs(t, err, &notRun)
			assert.InDelta(t, time.Minute, notRun.RetryIn, float64(time.Minute/2))
		}
	})
}
