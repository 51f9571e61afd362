package asynqmw_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// served is the context of a task on a configured server of eight workers.
func served(t *testing.T) context.Context {
	base := configure(asynq.Config{Concurrency: 8}).BaseContext()
	ctx, cancel := context.WithCancel(base)
	t.Cleanup(cancel)
	return ctx
}

// A task that went back after its wait leaves its room to the next, and so does one that runs.
func TestRoomInSlotsIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, store := scripted(t)
		ctx, done := served(t), make(chan struct{})
		h := asynqmw.Wrap(asynqmw.ForTest(k), byUser, func(context.Context, order) error {
			<-done
			return nil
		})
		for i := range 8 {
			payload := fmt.Sprintf(`{"User":"%d"}`, i)
			go func() { assert.NoError(t, h.ProcessTask(ctx, task(payload))) }()
		}
		synctest.Wait()
		store.Overwrite("order:u1", contract.Holder{}, time.Hour)
		for range 8 {
			begun := time.Now()
			err := h.ProcessTask(ctx, task(`{"User":"u1"}`))
			require.ErrorIs(t, err, renewer.ErrBusy)
			assert.Equal(t, time.Second, time.Since(begun))
		}
		close(done)
		synctest.Wait()
	})
}
