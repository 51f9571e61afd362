package asynqmw_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestDelayOfTasksThatDidNotRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		held  time.Duration // 0: the store is down
		opts  []asynqmw.HandleOption
		about time.Duration
	}{
		"held":               {time.Millisecond, nil, lockmw.DefaultRetryIn},
		"held for long":      {20 * time.Second, nil, 10 * time.Second},
		"held for very long": {time.Hour, nil, 30 * time.Second},
		"held, as told": {
			time.Hour,
			[]asynqmw.HandleOption{asynqmw.RetryIn(time.Minute)},
			time.Minute,
		},
		"down":          {0, nil, 5 * time.Second},
		"down, as told": {0, []asynqmw.HandleOption{asynqmw.RetryIn(time.Hour)}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k, store := scripted(t)
				if c.held > 0 {
					store.Overwrite("order:u1", renewer.Holder{Node: "n"}, 2*time.Hour)
					<-time.After(c.held)
				} else {
					store.Default(script.Acquire, script.Fail(errors.New("refused")))
				}
				h := asynqmw.Handle(k, byUser, func(context.Context, order) error {
					return nil
				}, append(c.opts, asynqmw.Wait(0))...)
				seen := make(map[time.Duration]bool)
				for range 50 {
					err := h.ProcessTask(t.Context(), task(`{"User":"u1"}`))
					var notRun *asynqmw.NotRunError
					require.ErrorAs(t, err, &notRun)
					assert.Equal(t, c.held > 0, errors.Is(err, renewer.ErrHeld))
					assert.Equal(t, c.held == 0, errors.Is(err, renewer.ErrUnavailable))
					assert.GreaterOrEqual(t, notRun.RetryIn, c.about/2)
					assert.Less(t, notRun.RetryIn, c.about*3/2)
					seen[notRun.RetryIn] = true
				}
				assert.Greater(t, len(seen), 40, "jitter")
				require.NoError(t, k.Shutdown(t.Context()))
				err := h.ProcessTask(t.Context(), task(`{"User":"u1"}`))
				require.ErrorIs(t, err, renewer.ErrShutdown)
				assert.False(t, isFailure(err))
			})
		})
	}
}
