package renewer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A token is used when the store's clock has reached it, even if that
// is as slow as may be and ours as fast.
func TestNoTokenIsAheadOfTheClock(t *testing.T) {
	t.Parallel()
	for elapsed, handed := range map[time.Duration]bool{
		0: false, time.Microsecond: false, 1020 * time.Nanosecond: false,
		1021 * time.Nanosecond: true, time.Millisecond: true,
		10*time.Millisecond - 1: true, 10 * time.Millisecond: false, // HandOffFor
	} {
		inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
			callers := line(t, s, k, 2)
			waitFor(elapsed)
			require.NoError(t, callers[0].lease.Release(t.Context()))
			<-callers[1].got
			require.Equal(t, handed, len(s.Calls(script.Acquire)) == 2, elapsed)
			require.NoError(t, callers[1].lease.Release(t.Context()))
		})
	}
}

// Tokens that were reserved are nobody's after the lease is gone.
func TestTokensRiseOverHandOffs(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		var last int64
		for range 10 {
			callers := line(t, s, k, 4)
			for i, c := range callers {
				<-c.got
				require.Greater(t, c.lease.Fence(), last)
				last = c.lease.Fence()
				waitFor(aToken)
				if i == 2 {
					callers[3].leave()
					<-callers[3].got
					require.NoError(t, c.lease.Release(t.Context()))
					break
				}
				require.NoError(t, c.lease.Release(t.Context()))
			}
		}
	})
}
