package once_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// An attempt that hangs makes way for the next one.
func TestMaxHoldOfAnAttempt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		begun, n := time.Now(), 0
		got, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (report, error) {
			n++
			if n == 2 {
				return report{Pages: 2}, nil
			}
			<-ctx.Done()
			var lost *renewer.LostError
			require.ErrorAs(t, context.Cause(ctx), &lost)
			require.Equal(t, renewer.ReasonMaxHold, lost.Reason)
			require.Equal(t, 5*time.Minute, time.Since(begun))
			return report{}, ctx.Err()
		}, lockmw.MaxHold(5*time.Minute))
		require.NoError(t, err)
		require.Equal(t, report{Pages: 2}, got)

		asked := len(s.Calls(script.Acquire))
		_, err = once.Do(t.Context(), k, "b", never(t), lockmw.MaxHold(time.Second))
		require.ErrorIs(t, err, renewer.ErrConfig)
		require.Len(t, s.Calls(script.Acquire), asked)
	})
}
