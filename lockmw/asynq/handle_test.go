package asynqmw_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// middleware is one on a fixed key.
func middleware(k *renewer.Keeper, key string, next asynq.Handler) asynq.Handler {
	return asynqmw.Middleware(asynqmw.ForTest(k), func(*asynq.Task) string { return key })(next)
}

func TestUnusableTasksAreArchivedAndNoLockAsked(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	never := func(context.Context, order) error {
		t.Error("it ran")
		return nil
	}
	errOwn := errors.New("no such user")
	l := asynqmw.ForTest(k)
	byJSON := asynqmw.Wrap(l, byUser, never)
	for name, c := range map[string]struct {
		h             asynq.Handler
		payload, want string
		kind          error
	}{
		"malformed": {
			byJSON, `{"User":`,
			`lockbeat: unusable task of type "order": it is no asynqmw_test.order: unexpected end`,
			asynqmw.ErrPayload,
		},
		"of another shape": {byJSON, `["u1"]`, "cannot unmarshal array", asynqmw.ErrPayload},
		"empty":            {byJSON, "", "invalid lock name", renewer.ErrName},
		"no key":           {byJSON, `{}`, "invalid lock name", renewer.ErrName},
		"null":             {byJSON, `null`, "invalid lock name", renewer.ErrName},
		"key too long": {
			byJSON, `{"User":"` + strings.Repeat("x", 600) + `"}`, "above the limit",
			renewer.ErrName,
		},
		"can't be decoded": {
			asynqmw.WrapWith(l, func([]byte) (o order, err error) { return o, errOwn }, byUser,
				never),
			"", "it is no asynqmw_test.order: no such user", errOwn,
		},
		"no name, and why": {
			asynqmw.Middleware(l, func(*asynq.Task) lockmw.Set {
				return lockmw.Invalid(errOwn)
			})(byJSON),
			"{}", "no such user", errOwn,
		},
	} {
		err := c.h.ProcessTask(t.Context(), task(c.payload))
		require.ErrorContains(t, err, c.want, name)
		require.ErrorIs(t, err, c.kind, name)
		require.ErrorIs(t, err, asynq.SkipRetry, name)
		assert.NotEqual(t, errors.Is(err, renewer.ErrName), errors.Is(err, asynqmw.ErrPayload))
	}
	for _, op := range []script.Op{script.Acquire, script.Renew, script.Release} {
		assert.Empty(t, store.Calls(op))
	}
}

// The lock's name is what the key function returns, a named string too, and the
// task's context has the task.
func TestWhatAHandlerHas(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	assert.Nil(t, asynqmw.Task(t.Context()))
	sent, ran := task(`{"User":"u:1"}`), 0
	type userID string
	h := asynqmw.Wrap(asynqmw.ForTest(k), func(o order) userID { return userID(o.User) },
		func(ctx context.Context, o order) error {
			ran++
			assert.Equal(t, order{User: "u:1"}, o)
			assert.True(t, lockmw.Held(ctx, "u:1"))
			assert.Positive(t, lockmw.Fence(ctx))
			assert.Same(t, sent, asynqmw.Task(ctx))
			return nil
		})
	require.NoError(t, h.ProcessTask(t.Context(), sent))
	assert.Equal(t, 1, ran)
	calls := store.Calls(script.Acquire)
	require.Len(t, calls, 1)
	assert.Equal(t, "u:1", calls[0].Claims[0].Name)
	assert.Equal(t, "order", calls[0].Claims[0].Holder.Operation)
}

func TestHandlersInsideOfOthers(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	inner := asynqmw.Wrap(asynqmw.ForTest(k), byUser, nothing)
	err := middleware(k, "order:u1", inner).ProcessTask(t.Context(), task(`{"User":"u1"}`))
	require.NoError(t, err)
	assert.Len(t, store.Calls(script.Acquire), 1, "on the same key they share the lease")

	store.Script(script.Acquire, script.Pass(), script.Taken(contract.Holder{}, time.Minute))
	err = middleware(k, "outer", inner).ProcessTask(t.Context(), task(`{"User":"inner"}`))
	require.ErrorIs(t, err, renewer.ErrBusy)
	assert.False(t, isFailure(err), "a refusal of the inner one is a refusal")

	// Of a lock that the handler uses itself it is an error of the handler's:
	// it has run.
	store.Script(script.Acquire, script.Pass(), script.Taken(contract.Holder{}, time.Minute))
	err = asynqmw.Wrap(asynqmw.ForTest(k), byUser, func(ctx context.Context, _ order) error {
		return lockmw.Run(ctx, k, "inner", func(context.Context) error { return nil },
			lockmw.Refuse())
	}).ProcessTask(t.Context(), task(`{"User":"u1"}`))
	require.ErrorIs(t, err, renewer.ErrBusy)
	assert.True(t, isFailure(err))
}

// The lease of the outer handler is lost before the inner one, on the same key,
// has begun.
func TestInnerHandlerAfterALoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, store := scripted(t)
		inner := asynqmw.Wrap(asynqmw.ForTest(k), byUser, func(context.Context, order) error {
			t.Error("it ran")
			return nil
		})
		outer := func(ctx context.Context, task *asynq.Task) error {
			store.Delete("order:u1")
			<-ctx.Done()
			return inner.ProcessTask(context.WithoutCancel(ctx), task)
		}
		h := middleware(k, "order:u1", asynq.HandlerFunc(outer))
		err := h.ProcessTask(t.Context(), task(`{"User":"u1"}`))
		require.ErrorIs(t, err, renewer.ErrLost)
		assert.False(t, isFailure(err))
		assert.InDelta(t, time.Second, configured.RetryDelayFunc(0, err, nil),
			float64(time.Second/2))
	})
}

// A task without a payload, as schedules enqueue it, used to be archived at
// once: "unexpected end of JSON input".
func TestPayloads(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	none, null, text := asynq.NewTask("report", nil), asynq.NewTask("report", []byte("null")),
		asynq.NewTask("report", []byte("all"))
	l := asynqmw.ForTest(k)
	all := func(struct{}) string { return "all" }
	pointer := asynqmw.Wrap(l, func(o *order) string { return "all" + o.User },
		func(_ context.Context, o *order) error {
			assert.Equal(t, &order{}, o)
			return nil
		})
	for name, c := range map[string]struct {
		h    asynq.Handler
		task *asynq.Task
	}{
		"none": {asynqmw.Wrap(l, all,
			func(context.Context, struct{}) error { return nil }), none},
		"none, pointer": {pointer, none},
		"null, pointer": {pointer, null},
		"none, raw": {asynqmw.Wrap(l, func(json.RawMessage) string { return "all" },
			func(context.Context, json.RawMessage) error { return nil }), none},
		"no JSON": {asynqmw.WrapWith(l, func(payload []byte) (*order, error) {
			return &order{User: string(payload)}, nil
		}, func(o *order) string { return o.User },
			func(context.Context, *order) error { return nil }), text},
	} {
		require.NoError(t, c.h.ProcessTask(t.Context(), c.task), name)
	}
	calls := store.Calls(script.Acquire)
	assert.Len(t, calls, 5)
	for _, call := range calls {
		assert.Equal(t, "all", call.Claims[0].Name)
	}
}

// A task of two seconds has a quarter of one to get the lock: the rest is for
// its work. Once that has begun it has all its time. A store may take longer to
// answer than tasks wait.
func TestAnswerAndTheTimeOfTheTask(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		time   time.Duration
		answer script.Step
		runs   bool
	}{
		"in time":     {2 * time.Second, script.Pass().Late(200 * time.Millisecond), true},
		"too late":    {2 * time.Second, script.Pass().Late(300 * time.Millisecond), false},
		"never":       {2 * time.Second, script.Hang(), false},
		"a long time": {time.Minute, script.Pass().Late(2 * time.Second), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k, store := scripted(t)
				store.Script(script.Acquire, c.answer)
				require.Greater(t, k.Config().RequestTimeout, 2*time.Second)
				ctx, cancel := context.WithTimeout(
					configure(asynq.Config{Concurrency: 8}).BaseContext(), c.time)
				defer cancel()
				begun, ran := time.Now(), false
				l := asynqmw.ForTest(k)
				err := asynqmw.Wrap(l, byUser, func(ctx context.Context, _ order) error {
					ran = true
					<-ctx.Done()
					assert.Equal(t, c.time, time.Since(begun))
					require.ErrorIs(t, context.Cause(ctx), context.DeadlineExceeded)
					return nil
				}).ProcessTask(ctx, task(`{"User":"u1"}`))
				assert.Equal(t, c.runs, ran)
				if c.runs {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, renewer.ErrUnavailable)
					require.NotErrorIs(t, err, context.Canceled)
					assert.False(t, isFailure(err))
					assert.Less(t, time.Since(begun), c.time)
				}
				synctest.Wait()
				assert.Empty(t, store.Owner("order:u1"))
			})
		})
	}
}

// Who cancels a task decides what becomes of it: it was not refused by its
// lock.
func TestCancelledWhileWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, store := scripted(t)
		store.Overwrite("order:u1", contract.Holder{}, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		err := asynqmw.Wrap(asynqmw.ForTest(k), byUser, nothing, lockmw.Wait(time.Minute)).
			ProcessTask(ctx, task(`{"User":"u1"}`))
		require.ErrorIs(t, err, context.Canceled)
		assert.True(t, isFailure(err))
	})
}

// What is made of the loss itself is lockmw's.
func TestLossIsAFailureOfTheHandler(t *testing.T) {
	t.Parallel()
	for _, own := range []error{errors.New("half done"), asynq.SkipRetry} {
		synctest.Test(t, func(t *testing.T) {
			k, store := scripted(t)
			err := asynqmw.Wrap(asynqmw.ForTest(k), byUser, func(ctx context.Context, _ order) error {
				store.Delete("order:u1")
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), renewer.ErrLost)
				return own
			}).ProcessTask(t.Context(), task(`{"User":"u1"}`))
			require.ErrorIs(t, err, renewer.ErrLost)
			require.ErrorIs(t, err, own)
			assert.True(t, isFailure(err))
		})
	}
}
