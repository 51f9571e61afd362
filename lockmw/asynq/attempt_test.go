package asynqmw_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// Who cancels a task decides what becomes of it: it was not refused by its lock.
func TestCancelledWhileWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, store := scripted(t)
		store.Overwrite("order:u1", renewer.Holder{}, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		h := asynqmw.Handle(k, byUser, func(context.Context, order) error {
			return nil
		}, asynqmw.Wait(time.Minute))
		err := h.ProcessTask(ctx, task(`{"User":"u1"}`))
		require.ErrorIs(t, err, context.Canceled)
		assert.True(t, isFailure(err))
	})
}

// A task of two seconds has a quarter of one to get the lock: the rest is for its work. Once that
// has begun it has all its time.
func TestAnswerAndTheTimeOfTheTask(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer script.Step
		runs   bool
	}{
		"in time":  {answer: script.Pass().Late(200 * time.Millisecond), runs: true},
		"too late": {answer: script.Pass().Late(300 * time.Millisecond)},
		"never":    {answer: script.Hang()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := script.New()
				store.Script(script.Acquire, c.answer)
				k := newKeeper(t, store, renewer.Config{TTL: renewer.DefaultTTL})
				require.Greater(t, k.Config().RequestTimeout, 2*time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				begun, ran := time.Now(), false
				h := asynqmw.Handle(k, byUser, func(ctx context.Context, _ order) error {
					ran = true
					<-ctx.Done()
					assert.Equal(t, 2*time.Second, time.Since(begun))
					require.ErrorIs(t, context.Cause(ctx), context.DeadlineExceeded)
					return nil
				})
				err := h.ProcessTask(ctx, task(`{"User":"u1"}`))
				assert.Equal(t, c.runs, ran)
				if c.runs {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, renewer.ErrUnavailable)
					require.NotErrorIs(t, err, context.Canceled)
					assert.False(t, isFailure(err))
					assert.Less(t, time.Since(begun), 2*time.Second)
				}
				synctest.Wait()
				assert.Empty(t, store.Owner("order:u1"))
			})
		})
	}
}

// The lease of the outer handler is lost before the inner one, on the same key, has begun.
func TestInnerHandlerAfterALoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, store := scripted(t)
		inner := asynqmw.Handle(k, byUser, func(context.Context, order) error {
			t.Error("it ran")
			return nil
		})
		h := asynqmw.Middleware(k, func(*asynq.Task) (string, error) { return "u1", nil })(
			asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
				store.Delete("order:u1")
				<-ctx.Done()
				return inner.ProcessTask(context.WithoutCancel(ctx), task)
			}))
		err := h.ProcessTask(t.Context(), task(`{"User":"u1"}`))
		require.ErrorIs(t, err, renewer.ErrLost)
		assert.False(t, isFailure(err))
		assert.InDelta(t, lockmw.DefaultRetryIn, configured.RetryDelayFunc(0, err, nil),
			float64(lockmw.DefaultRetryIn/2))
	})
}
