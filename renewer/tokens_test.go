package renewer_test

import (
	"testing"
	"testing/synctest"
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

// However a lease ends, the tokens that nobody has used are given back with its key.
func TestUnusedTokensAreGivenBack(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, last *caller, k *renewer.Keeper){
		"released": func(t *testing.T, last *caller, _ *renewer.Keeper) {
			require.NoError(t, last.lease.Release(t.Context()))
		},
		"after a panic": func(t *testing.T, last *caller, _ *renewer.Keeper) {
			require.NoError(t, last.lease.Abort(t.Context()))
		},
		"lost": func(t *testing.T, last *caller, _ *renewer.Keeper) {
			waitFor(time.Minute)
			require.ErrorIs(t, last.lease.Release(t.Context()), renewer.ErrLost)
			synctest.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config
			cfg.MaxHold = 30 * time.Second
			inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				callers := line(t, s, k, 3)
				first := callers[0].lease.Fence()
				require.True(t, callers[0].free(t, callers[1], nil))
				require.True(t, callers[1].free(t, callers[2], nil))
				end(t, callers[2], k)
				calls := s.Calls(script.Release)
				require.Equal(t, first+2, calls[len(calls)-1].Holds[0].Used)
			})
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

// Also when the keeper is shut down under the operation.
func TestUnusedTokensAreGivenBackAfterAShutdown(t *testing.T) {
	t.Parallel()
	shut(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		callers := line(t, s, k, 2)
		require.True(t, callers[0].free(t, callers[1], nil))
		require.Error(t, k.Shutdown(within(t, time.Second)))
		require.ErrorIs(t, callers[1].lease.Release(t.Context()), renewer.ErrLost)
		waitFor(time.Minute) // it goes on behind its caller's back
		calls := s.Calls(script.Release)
		require.Equal(t, callers[1].lease.Fence(), calls[len(calls)-1].Holds[0].Used)
	})
}
