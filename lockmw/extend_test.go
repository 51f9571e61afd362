package lockmw_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A function that decides for itself keeps its lock for as long as it makes
// progress.
func TestAFunctionExtendsItsLock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		_, err := lockmw.Do(t.Context(), k, "a", func(ctx context.Context) (int, error) {
			for range 10 {
				elapse(20 * time.Second)
				require.NoError(t, lockmw.Extend(ctx, time.Minute))
			}
			require.NoError(t, lockmw.Extend(ctx, 2*time.Minute))
			require.Greater(t, lockmw.Remaining(ctx), time.Minute)
			require.Len(t, s.Calls(script.Renew), 11, "there is no heartbeat")
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), renewer.ErrLost)
			require.ErrorIs(t, lockmw.Extend(ctx, time.Minute), renewer.ErrLost)
			return 0, errOperation
		}, lockmw.Manual(time.Minute))
		require.ErrorIs(t, err, renewer.ErrLost)
		require.ErrorIs(t, lockmw.Extend(t.Context(), time.Minute), lockmw.ErrNotHeld)
		_, err = lockmw.Do(t.Context(), k, "a", answer, lockmw.Manual(0))
		require.ErrorIs(t, err, renewer.ErrConfig)
		require.Equal(t, adapter.RefusalMisuse, adapter.RefusalOf(err))
	})
}

// Several are extended until the store does not answer: each question may take
// as long as one.
func TestAnExtensionOfSeveralIsBounded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		_, err := lockmw.Do(t.Context(), k, lockmw.All("a", "b", "c"),
			func(ctx context.Context) (int, error) {
				require.NoError(t, lockmw.Extend(ctx, 2*time.Minute))
				require.Len(t, s.Calls(script.Renew), 3)
				s.Script(script.Renew, script.Pass(), script.Hang())
				begun := time.Now()
				require.ErrorIs(t, lockmw.Extend(ctx, 3*time.Minute), renewer.ErrUnavailable)
				require.Equal(t, k.Config().RequestTimeout, time.Since(begun))
				require.Len(t, s.Calls(script.Renew), 5)
				return 0, nil
			}, lockmw.Manual(time.Minute))
		require.NoError(t, err)
	})
}
