package asynqmw_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
)

func TestHandlersGetTheTask(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, e *env) {
		k := e.keeper()
		typed := asynqmw.Handle(k, byUser, func(ctx context.Context, _ order) error {
			return answer(ctx)
		})
		raw := asynqmw.Middleware(k, func(*asynq.Task) (string, error) { return "u1", nil })(
			asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
				assert.Same(t, task, asynqmw.Task(ctx))
				return answer(ctx)
			}))
		mux := asynq.NewServeMux()
		mux.Handle("typed", typed)
		mux.Handle("raw", raw)
		e.serve(mux)
		for _, typ := range []string{"typed", "raw"} {
			queued, err := e.client.Enqueue(asynq.NewTaskWithHeaders(typ, []byte(`{"User":"u1"}`),
				map[string]string{"tenant": "x"}), asynq.Retention(soon))
			require.NoError(t, err)
			info := e.awaitState(queued.ID, asynq.TaskStateCompleted)
			var got seen
			require.NoError(t, json.Unmarshal(info.Result, &got))
			assert.Equal(t, seen{ID: queued.ID, Type: typ, Tenant: "x"}, got)
		}
	})
}

// seen is what a handler learns from its task.
type seen struct{ ID, Type, Tenant string }

// answer writes what the task of ctx is as its result.
func answer(ctx context.Context) error {
	task := asynqmw.Task(ctx)
	result, err := json.Marshal(seen{
		ID: task.ResultWriter().TaskID(), Type: task.Type(), Tenant: task.Headers()["tenant"],
	})
	if err != nil {
		return err
	}
	_, err = task.ResultWriter().Write(result)
	return err
}

func TestTaskWhereNoServerCallsTheHandler(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	assert.Nil(t, asynqmw.Task(t.Context()))
	sent := task(`{"User":"u1"}`)
	h := asynqmw.Handle(k, byUser, func(ctx context.Context, _ order) error {
		assert.Same(t, sent, asynqmw.Task(ctx))
		assert.Nil(t, asynqmw.Task(ctx).ResultWriter())
		return nil
	})
	require.NoError(t, h.ProcessTask(t.Context(), sent))
}
