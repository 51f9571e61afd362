package asynqmw_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
)

func TestMaxHoldOfATask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, _ := scripted(t)
		begun := time.Now()
		work := func(ctx context.Context, _ order) error {
			<-ctx.Done()
			return ctx.Err()
		}
		h := asynqmw.Handle(k, byUser, work, asynqmw.MaxHold(5*time.Minute))
		err := h.ProcessTask(t.Context(), task(`{"User":"u1"}`))
		var lost *renewer.LostError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, renewer.ReasonMaxHold, lost.Reason)
		require.Equal(t, 5*time.Minute, time.Since(begun))

		byPayload := func(task *asynq.Task) (string, error) { return string(task.Payload()), nil }
		short := asynqmw.MaxHold(time.Second)
		require.Panics(t, func() { asynqmw.Handle(k, byUser, work, short) })
		require.Panics(t, func() { asynqmw.Middleware(k, byPayload, short) })
	})
}
