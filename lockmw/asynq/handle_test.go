package asynqmw_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// By FuzzPayload so are others.
func TestUnusableTasksAreArchivedAndNoLockAsked(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	never := func(context.Context, order) error {
		t.Error("it ran")
		return nil
	}
	l := asynqmw.ForTest(k)
	for name, c := range map[string]struct {
		h             asynq.Handler
		payload, want string
		kind          error
	}{
		"malformed": {
			asynqmw.Wrap(l, byUser, never), `{"User":`,
			`lockbeat: unusable task of type "order": it is no asynqmw_test.order: unexpected end`,
			asynqmw.ErrPayload,
		},
		"can't be decoded": {
			asynqmw.WrapWith(l, func([]byte) (o order, err error) { return o, errReal }, byUser,
				never),
			"", "it is no asynqmw_test.order: no luck", errReal,
		},
		"no key": {asynqmw.Wrap(l, byUser, never), `{}`, "invalid lock name", renewer.ErrName},
	} {
		err := c.h.ProcessTask(t.Context(), task(c.payload))
		require.ErrorContains(t, err, c.want, name)
		require.ErrorIs(t, err, c.kind, name)
		require.ErrorIs(t, err, asynq.SkipRetry, name)
		assert.NotEqual(t, errors.Is(err, renewer.ErrName), errors.Is(err, asynqmw.ErrPayload))
	}
	assert.Empty(t, store.Calls(script.Acquire))
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

// What a handler that ran returns is a failure, and stays what it is, also where
// it comes from a lock that the handler uses itself, or where its own was lost.
// What a handler inside of it was refused is none.
func TestErrorsOfAHandlerThatRan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, store := scripted(t)
		l := asynqmw.ForTest(k)
		store.Overwrite("order:busy", contract.Holder{}, time.Hour)
		process := func(f func(context.Context, order) error) error {
			return asynqmw.Wrap(l, byUser, f).ProcessTask(t.Context(), task(`{"User":"u1"}`))
		}

		err := process(func(ctx context.Context, _ order) error {
			return lockmw.Run(ctx, k, "order:busy", func(context.Context) error { return nil },
				lockmw.Refuse())
		})
		require.ErrorIs(t, err, renewer.ErrBusy)
		assert.True(t, isFailure(err))

		err = process(func(ctx context.Context, _ order) error {
			store.Delete("order:u1")
			<-ctx.Done()
			return asynq.SkipRetry
		})
		require.ErrorIs(t, err, renewer.ErrLost)
		require.ErrorIs(t, err, asynq.SkipRetry)
		assert.True(t, isFailure(err))

		inner := asynqmw.Wrap(l, byUser, nothing, lockmw.Refuse())
		err = process(func(ctx context.Context, _ order) error {
			return fmt.Errorf("inside: %w", inner.ProcessTask(ctx, task(`{"User":"busy"}`)))
		})
		require.ErrorIs(t, err, renewer.ErrBusy)
		assert.False(t, isFailure(err))
	})
}

// A task that was replaced does not run again, and asynq is told what it failed
// with.
func TestReplacedTaskTellsWhatItFailedWith(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		own, calls := errors.New("the disk is full"), 0
		l := asynqmw.ForTest(newKeeper(t, memory.New(), renewer.Config{TTL: renewer.DefaultTTL}))
		h := asynqmw.Wrap(l, byUser, func(ctx context.Context, _ order) error {
			calls++
			if calls > 1 {
				return nil
			}
			<-ctx.Done()
			return own
		}, lockmw.Replace())
		told := make(chan error, 1)
		go func() { told <- h.ProcessTask(t.Context(), task(`{"User":"u1"}`)) }()
		synctest.Wait()
		require.NoError(t, h.ProcessTask(t.Context(), task(`{"User":"u1"}`)))
		err := <-told
		require.ErrorIs(t, err, own)
		require.ErrorIs(t, err, asynq.RevokeTask)
	})
}
