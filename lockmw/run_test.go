package lockmw_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A function may return the error of a lock that it uses itself, which must not be taken for that
// of the lock around it.
func TestRunReportsWhetherTheFunctionRan(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		var inner error
		ran, err := lockmw.Run(t.Context(), k, "a", func(ctx context.Context) error {
			require.True(t, lockmw.Held(ctx, "a"))
			nop := func(context.Context) error { t.Error("ran"); return nil }
			var ran bool
			// Not ctx: that would be the same call chain.
			ran, inner = lockmw.Run(t.Context(), k, "a", nop, lockmw.Refuse())
			require.False(t, ran)
			require.Equal(t, lockmw.RefusalBusy, lockmw.RefusalOf(inner))
			return inner
		})
		require.True(t, ran)
		require.Equal(t, inner, err, "as it is")
		free(t, k, "a")
	})
}

func TestWhatIsCalledWithoutAKeeperOrAFunction(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		ctx := t.Context()
		nop := func(context.Context) error { return nil }
		for name, call := range map[string]func() (bool, error){
			"Run needs": func() (bool, error) { return lockmw.Run(ctx, nil, "a", nop) },
			"Run":       func() (bool, error) { return lockmw.Run(ctx, k, "a", nil) },
			"Do needs": func() (bool, error) {
				_, err := lockmw.Do(ctx, nil, "a", answer)
				return false, err
			},
			"RunWhileHeld needs": func() (bool, error) {
				return false, lockmw.RunWhileHeld(ctx, k, "a", nil)
			},
		} {
			ran, err := call()
			require.ErrorIs(t, err, renewer.ErrConfig)
			require.ErrorContains(t, err, name)
			require.False(t, ran)
		}
	})
}
