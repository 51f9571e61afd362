package lockmw_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/internal/full"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// A caller's deadline that ends the wait stays that for adapters, though the
// error says that the lock, or the slot, is held, too.
func TestADeadlineIsFirst(t *testing.T) {
	t.Parallel()
	for what, name := range map[string]lockmw.Set{
		"lock": lockmw.All("a"), "limit": lockmw.Limit("a", 1),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k, err := renewer.New(memory.New(), renewer.Config{})
				require.NoError(t, err)
				err = lockmw.Run(t.Context(), k, name, func(context.Context) error {
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					defer cancel()
					err := lockmw.Run(ctx, k, name, func(context.Context) error { return nil })
					assert.ErrorIs(t, err, renewer.ErrBusy)
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					assert.Equal(t, adapter.RefusalDeadline, adapter.RefusalOf(err))
					_, isFull := full.Of(err)
					assert.False(t, isFull)
					return nil
				})
				require.NoError(t, err)
				require.NoError(t, k.Shutdown(t.Context()))
			})
		})
	}
}
