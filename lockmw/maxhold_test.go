package lockmw_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

const keepersMaxHold = 2 * time.Minute

func bounded(c *renewer.Config) { c.MaxHold = keepersMaxHold }

// A keeper's MaxHold bounds pieces of work, such as a request. A leader has none to finish.
func TestALeaderLeadsOnPastMaxHold(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		ctx, resign := context.WithCancel(t.Context())
		defer resign()
		terms := 0
		done := lead(ctx, k, func(ctx context.Context) error {
			terms++
			<-ctx.Done()
			return ctx.Err()
		})
		elapse(3*keepersMaxHold + time.Second)
		synctest.Wait()
		require.Equal(t, 1, terms)
		resign()
		require.ErrorIs(t, <-done, context.Canceled)
	}, bounded)
}
