package lockmw_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// The eighth of a short Wait is less than a quarter of a second, and of a long
// one no more.
func TestHowLongLocksAreKeptWhileAnotherIsWaitedFor(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]time.Duration{
		time.Second: time.Second / 8,
		time.Hour:   time.Second / 4,
	} {
		inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
			for _, busy := range []string{"c", "d"} {
				_, exit, err := adapter.Enter(t.Context(), k, busy)
				require.NoError(t, err)
				defer func() { require.NoError(t, exit(nil)) }()
				if busy == "c" { // for a part of the time that there is in all
					time.AfterFunc(want/2, func() { _ = exit(nil) })
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := lockmw.Do(ctx, k, lockmw.All("a", "b", "c", "d"), answer,
					lockmw.Wait(wait))
				done <- err
			}()
			synctest.Wait()
			begun := time.Now()
			_, err := lockmw.Do(t.Context(), k, "a", answer)
			require.NoError(t, err)
			require.Equal(t, want, time.Since(begun))
			cancel()
			require.ErrorIs(t, <-done, context.Canceled)
		})
	}
}

// A caller who has got the busy one at last finds another busy by then: it
// gives that back, and begins anew.
func TestTheOthersAreBusyWhenTheBusyOneIsFree(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		_, exit, err := adapter.Enter(t.Context(), k, "zz")
		require.NoError(t, err)
		begun := time.Now()
		done := make(chan error, 1)
		go func() {
			_, err := lockmw.Do(t.Context(), k, lockmw.All("alice", "zz"), answer)
			done <- err
		}()
		elapse(2 * time.Second) // it waits for zz alone
		_, exitAlice, err := adapter.Enter(t.Context(), k, "alice")
		require.NoError(t, err)
		require.NoError(t, exit(nil))
		elapse(time.Second)
		require.Empty(t, s.Owner("zz"), "it has given that back")
		require.NoError(t, exitAlice(nil))
		require.NoError(t, <-done)
		require.Equal(t, 3*time.Second, time.Since(begun))
	})
}

// However long it takes to ask for all of them, nothing is asked for past the
// end of Wait.
func TestManyLocksTakeNoLongerThanWait(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		names := manyNames(64)
		s.Default(script.Acquire, script.Pass().Late(10*time.Second))
		begun := time.Now()
		_, err := lockmw.Do(t.Context(), k, lockmw.All(names...), answer,
			lockmw.Wait(5500*time.Millisecond))
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		require.Less(t, time.Since(begun), 5501*time.Millisecond)
		elapse(time.Minute)
		for _, name := range names {
			require.Empty(t, s.Owner(name))
		}
	})
}
