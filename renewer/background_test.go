package renewer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A release in the background costs its caller no time. The next to ask for the name in this
// process comes behind it.
func TestReleaseInBackground(t *testing.T) {
	t.Parallel()
	const slow = 100 * time.Millisecond
	for what, next := range map[string]func(context.Context, *renewer.Keeper) (*renewer.Lease, error){
		"one who waits": func(ctx context.Context, k *renewer.Keeper) (*renewer.Lease, error) {
			return k.Acquire(ctx, "a")
		},
		"one who does not": func(ctx context.Context, k *renewer.Keeper) (*renewer.Lease, error) {
			return k.TryAcquire(ctx, "a")
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			shut(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				s.Default(script.Release, script.Pass().Slow(slow))
				l := acquire(t, k, "a")
				begun := time.Now()
				require.NoError(t, l.ReleaseInBackground(t.Context()))
				require.NoError(t, l.ReleaseInBackground(t.Context()), "a second call does nothing")
				assertInstant(t, begun, time.Now(), "at once")
				require.False(t, l.Valid())
				require.Error(t, l.Context().Err())
				synctest.Wait()
				require.Len(t, s.Calls(script.Release), 1, "it is on its way")
				l, err := next(t.Context(), k)
				require.NoError(t, err)
				assertInstant(t, begun.Add(slow), time.Now(), "behind it")
				require.NoError(t, l.Release(t.Context()))
				require.NoError(t, k.Shutdown(t.Context()))
			})
		})
	}
}

// Shutdown waits for releases in the background; once it has begun, there are none any more.
func TestShutdownWaitsForReleasesInBackground(t *testing.T) {
	t.Parallel()
	shut(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		const slow = 100 * time.Millisecond
		s.Default(script.Release, script.Pass().Slow(slow))
		first, second := acquire(t, k, "a"), acquire(t, k, "b")
		begun := time.Now()
		require.NoError(t, first.ReleaseInBackground(t.Context()))
		ended := make(chan error, 1)
		go func() { ended <- k.Shutdown(t.Context()) }()
		waitFor(slow / 2)
		require.NoError(t, second.ReleaseInBackground(t.Context()))
		assertInstant(t, begun.Add(slow/2+slow), time.Now(), "it waits")
		require.NoError(t, <-ended)
		require.Empty(t, s.Owner("a"))
		require.Empty(t, s.Owner("b"))
	})
}

// What is known of a loss is told to the caller, and what the release finds to the Observer.
func TestLossesAndReleasesInBackground(t *testing.T) {
	t.Parallel()
	cfg := config
	var observer recorder
	cfg.Observer = &observer
	inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		lost := acquire(t, k, "a")
		s.Script(script.Renew, script.Gone())
		_, why := lostAt(t, lost)
		synctest.Wait()
		require.Equal(t, why, lost.ReleaseInBackground(t.Context()))

		found := acquire(t, k, "b")
		s.Script(script.Release, script.Gone())
		require.NoError(t, found.ReleaseInBackground(t.Context()))
		synctest.Wait()
		require.Equal(t, "b", heard[renewer.Lost](&observer)[1].Name)

		failed := acquire(t, k, "c")
		s.Script(script.Release, script.Fail(errDown))
		require.NoError(t, failed.ReleaseInBackground(t.Context()))
		synctest.Wait()
		over := heard[renewer.Released](&observer)
		require.ErrorIs(t, over[len(over)-1].Err, errDown)
		waitFor(time.Second)
		require.Empty(t, s.Owner("c"), "it is cleaned up")
	})
}
