package asynqmw_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// Whatever a payload is, the task either runs under its own key or is
// archived, and never anything else.
func FuzzPayload(f *testing.F) {
	for _, seed := range []string{
		`{"User":"u1"}`, `{"User":"a:b%"}`, `{}`, `null`, ``, `{`, `[]`,
		`{"User":1}`, `{"User":"u1","User":"u2"}`, `{"User":"u1","USER":"u2"}`,
		"{\"User\":\"\\u0000{\"}", "\xff",
	} {
		f.Add([]byte(seed))
	}
	k, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	require.NoError(f, err)
	f.Cleanup(func() { _ = k.Shutdown(context.WithoutCancel(f.Context())) })
	ran := false
	h := asynqmw.Wrap(asynqmw.ForTest(k), byUser, func(ctx context.Context, o order) error {
		ran = true
		assert.True(f, lockmw.Held(ctx, lockmw.Key("order", o.User)))
		return nil
	})
	f.Fuzz(func(t *testing.T, payload []byte) {
		ran = false
		err := h.ProcessTask(t.Context(), asynq.NewTask("order", payload))
		var o order
		var wrong error
		if len(payload) > 0 {
			wrong = json.Unmarshal(payload, &o)
		}
		if wrong == nil {
			wrong = renewer.CheckName(lockmw.Key("order", o.User))
		}
		assert.Equal(t, wrong == nil, ran)
		if wrong == nil {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, asynq.SkipRetry)
		}
	})
}
