package lockmw_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A function may return the error of a lock that it uses itself, which must not
// be taken for that of the lock around it.
func TestRunReportsWhetherTheFunctionRan(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		var inner error
		ran, err := adapter.Run(t.Context(), k, "a", func(ctx context.Context) error {
			require.True(t, lockmw.Held(ctx, "a"))
			nop := func(context.Context) error { t.Error("ran"); return nil }
			var ran bool
			// Not ctx: that would be the same call chain.
			ran, inner = adapter.Run(t.Context(), k, "a", nop, lockmw.Refuse())
			require.False(t, ran)
			require.Equal(t, adapter.RefusalBusy, adapter.RefusalOf(inner))
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
			"needs a keeper":         func() (bool, error) { return adapter.Run(ctx, nil, "a", nop) },
			"a keeper (renewer.New)": func() (bool, error) { return adapter.Run(ctx, k, "a", nil) },
			"Do needs": func() (bool, error) {
				_, err := lockmw.Do[int](ctx, k, "a", nil)
				return false, err
			},
			"Lead needs": func() (bool, error) {
				return false, lockmw.Lead(ctx, k, "a", nil)
			},
		} {
			ran, err := call()
			require.ErrorIs(t, err, renewer.ErrConfig)
			require.ErrorContains(t, err, name)
			require.False(t, ran)
		}
	})
}
