package asynqmw_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// scripted returns a keeper on a store that records what it is asked.
func scripted(t *testing.T) (*renewer.Keeper, *script.Store) {
	store := script.New()
	return newKeeper(t, store, renewer.Config{TTL: renewer.DefaultTTL}), store
}

func task(payload string) *asynq.Task { return asynq.NewTask("order", []byte(payload)) }

func TestUnusableTaskIsArchivedAndNoLockAsked(t *testing.T) {
	t.Parallel()
	e := onEmbedded(t)
	k, store := scripted(t)
	mux := asynq.NewServeMux()
	never := func(context.Context, order) error {
		t.Error("it ran")
		return nil
	}
	mux.Handle("order", asynqmw.Handle(k, byUser, never))
	mux.Handle("shared", asynqmw.Handle(k, byUser, never, asynqmw.SharedKey()))
	mux.Handle("raw", asynqmw.Middleware(k, func(*asynq.Task) (string, error) {
		return "", errors.New("no such user")
	})(
		asynqmw.Handle(k, byUser, never)))
	e.serve(mux)
	for name, c := range map[string]struct{ typ, payload, want string }{
		"malformed": {
			"order", `{"User":`,
			`lockbeat: unusable task of type "order": it is no asynqmw_test.order: unexpected end`,
		},
		"of another shape": {"order", `["u1"]`, "cannot unmarshal array"},
		"empty":            {"order", "", "invalid lock name"},
		"no key":           {"order", `{}`, "invalid lock name"},
		"no key, shared":   {"shared", `null`, "invalid lock name"},
		"key too long": {
			"order", `{"User":"` + strings.Repeat("x", 600) + `"}`,
			"above the limit",
		},
		"key function fails": {"raw", "", "its key function failed: no such user"},
	} {
		info, err := e.client.Enqueue(asynq.NewTask(c.typ, []byte(c.payload)))
		require.NoError(t, err)
		info = e.awaitState(info.ID, asynq.TaskStateArchived)
		assert.Contains(t, info.LastErr, c.want, name)
		assert.Zero(t, info.Retried, name)
	}
	for _, op := range []script.Op{script.Acquire, script.Renew, script.Release} {
		assert.Empty(t, store.Calls(op))
	}
}

func TestErrorsOfUnusableTasks(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	h := asynqmw.Handle(k, byUser, func(context.Context, order) error { return nil })
	err := h.ProcessTask(t.Context(), task("{"))
	require.ErrorIs(t, err, asynqmw.ErrPayload)
	require.ErrorIs(t, err, asynq.SkipRetry)
	require.NotErrorIs(t, err, renewer.ErrName)
	var syntax *json.SyntaxError
	require.ErrorAs(t, err, &syntax)
	own := errors.New("no such schema")
	h = asynqmw.Handle(k, func(order) string {
		t.Error("the key of what can't be decoded")
		return "u1"
	}, func(context.Context, order) error { return nil },
		asynqmw.Codec(func([]byte, any) error { return own }))
	err = h.ProcessTask(t.Context(), task("{}"))
	require.ErrorIs(t, err, asynqmw.ErrPayload)
	require.ErrorIs(t, err, asynq.SkipRetry)
	require.ErrorIs(t, err, own)
	require.ErrorContains(t, err, `unusable task of type "order": it is no asynqmw_test.order: no`)
	h = asynqmw.Handle(k, byUser, func(context.Context, order) error { return nil })
	err = h.ProcessTask(t.Context(), task("{}"))
	require.ErrorIs(t, err, renewer.ErrName)
	require.ErrorIs(t, err, asynq.SkipRetry)
	require.NotErrorIs(t, err, asynqmw.ErrPayload)
}

func TestNameAndOperationOfTheLock(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string][]asynqmw.HandleOption{
		"order:u%3A1": nil,
		"u:1":         {asynqmw.SharedKey()},
	} {
		k, store := scripted(t)
		ran := false
		h := asynqmw.Handle(k, byUser, func(ctx context.Context, o order) error {
			ran = true
			assert.Equal(t, order{User: "u:1"}, o)
			assert.True(t, lockmw.Held(ctx, want))
			assert.Positive(t, lockmw.Fence(ctx))
			return nil
		}, opts...)
		require.NoError(t, h.ProcessTask(t.Context(), task(`{"User":"u:1"}`)))
		assert.True(t, ran)
		calls := store.Calls(script.Acquire)
		require.Len(t, calls, 1)
		assert.Equal(t, want, calls[0].Claims[0].Name)
		assert.Equal(t, "order", calls[0].Claims[0].Holder.Operation)
	}
}

func TestMiddlewareAndHandleOnTheSameKeyShareTheLease(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	ran := false
	inner := asynqmw.Handle(k, byUser, func(context.Context, order) error {
		ran = true
		return nil
	})
	h := asynqmw.Middleware(k, func(*asynq.Task) (string, error) { return "u1", nil })(inner)
	require.NoError(t, h.ProcessTask(t.Context(), task(`{"User":"u1"}`)))
	assert.True(t, ran)
	assert.Len(t, store.Calls(script.Acquire), 1)
}

func TestRefusalOfAnInnerHandlerIsARefusal(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	store.Script(script.Acquire, script.Pass(), script.Taken(renewer.Holder{}, time.Minute))
	h := asynqmw.Middleware(k, func(*asynq.Task) (string, error) { return "outer", nil })(
		asynqmw.Handle(k, byUser, func(context.Context, order) error { return nil }))
	err := h.ProcessTask(t.Context(), task(`{"User":"inner"}`))
	require.ErrorIs(t, err, renewer.ErrHeld)
	assert.False(t, isFailure(err))
}

func TestCodecGetsThePayloadItself(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	for name, h := range map[string]asynq.Handler{
		"value": asynqmw.Handle(k, byUser, func(_ context.Context, o order) error {
			return errors.New(o.User)
		}, asynqmw.Codec(func(data []byte, v any) error {
			v.(*order).User = string(data)
			return nil
		})),
		"pointer": asynqmw.Handle(k, func(o *order) string {
			return o.User
		}, func(_ context.Context, o *order) error {
			return errors.New(o.User)
		}, asynqmw.Codec(func(data []byte, v any) error {
			v.(*order).User = string(data)
			return nil
		})),
	} {
		require.EqualError(t, h.ProcessTask(t.Context(), task("u1")), "u1", name)
	}
	h := asynqmw.Handle(k, func(o *order) string {
		return o.User + "x"
	}, func(_ context.Context, o *order) error {
		assert.Equal(t, &order{}, o)
		return nil
	})
	require.NoError(t, h.ProcessTask(t.Context(), task("null")), "a null is no nil pointer")
}

// asynq.NewTask("report", nil) is a task without arguments, as schedules enqueue it. It used to be
// archived at once: "unexpected end of JSON input".
func TestTaskWithoutAPayload(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	for name, h := range map[string]asynq.Handler{
		"none": asynqmw.Handle(k, func(struct{}) string { return "all" },
			func(context.Context, struct{}) error { return nil }),
		"pointer": asynqmw.Handle(k, func(o *order) string { return "all" + o.User },
			func(_ context.Context, o *order) error {
				assert.Equal(t, &order{}, o)
				return nil
			}),
		"raw": asynqmw.Handle(k, func(json.RawMessage) string { return "all" },
			func(_ context.Context, data json.RawMessage) error {
				assert.Empty(t, data)
				return nil
			}),
	} {
		require.NoError(t, h.ProcessTask(t.Context(), asynq.NewTask("report", nil)), name)
	}
	for _, call := range store.Calls(script.Acquire) {
		assert.Equal(t, "report:all", call.Claims[0].Name)
	}
	own := asynqmw.Handle(k, byUser, func(context.Context, order) error { return nil },
		asynqmw.Codec(json.Unmarshal))
	require.ErrorIs(t, own.ProcessTask(t.Context(), asynq.NewTask("report", nil)),
		asynqmw.ErrPayload, "a codec is asked")
}
