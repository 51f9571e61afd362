package renewer_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// The longest duration there is means what it says: no limit that is ever
// reached.
func TestTheLongestDuration(t *testing.T) {
	t.Parallel()
	const longest = time.Duration(math.MaxInt64)
	cfg := config
	cfg.MaxHold, cfg.CancelGrace, cfg.Poll = longest, longest, longest
	inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		before := acquire(t, k, "a", renewer.Request{MaxWait: longest})
		waiting := waits(t.Context(), k, renewer.Request{MaxWait: longest})
		waitFor(time.Hour)
		require.True(t, before.Valid())
		require.NoError(t, before.Release(t.Context()))
		require.NoError(t, <-waiting)

		l := acquire(t, k, "kept")
		l.HoldAtLeast(longest)
		require.NoError(t, l.Release(t.Context()))
		waitFor(365 * 24 * time.Hour)
		require.NotEmpty(t, s.Owner("kept"))
	})
}
