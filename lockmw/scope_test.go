package lockmw_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// The same name in the same call chain runs inside the lease that is held, and
// does not free it.
func TestReEntry(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		_, err := lockmw.Do(t.Context(), k, "b", answer) // so that the tokens differ
		require.NoError(t, err)
		_, err = lockmw.Do(t.Context(), k, "a", func(ctx context.Context) (int, error) {
			fence := lockmw.Fence(ctx)
			_, err := lockmw.Do(ctx, k, "b", func(ctx context.Context) (int, error) {
				require.NotEqual(t, fence, lockmw.Fence(ctx))
				require.True(t, lockmw.Held(ctx, "a"))
				require.True(t, lockmw.Held(ctx, "b"))
				inner, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				return lockmw.Do(inner, k, "a", func(ctx context.Context) (int, error) {
					want, _ := inner.Deadline()
					got, _ := ctx.Deadline()
					require.Equal(t, want, got, "in the caller's context")
					require.Equal(t, fence, lockmw.Fence(ctx), "its own lock's")
					return 1, nil
				})
			})
			require.True(t, lockmw.Held(ctx, "a"), "still")
			require.False(t, lockmw.Held(ctx, "b"))
			require.Equal(t, fence, lockmw.Fence(ctx))
			return 0, err
		})
		require.NoError(t, err)
		require.Len(t, s.Calls(script.Acquire), 3)
		require.Len(t, s.Calls(script.Release), 3)
	})
}

// Another keeper's lock of the same name is another lock.
func TestReEntryIsPerKeeper(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		k2, err := renewer.New(script.New(), renewer.Config{TTL: renewer.DefaultTTL})
		require.NoError(t, err)
		_, err = lockmw.Do(t.Context(), k, "a", func(ctx context.Context) (int, error) {
			return lockmw.Do(ctx, k2, "a", func(inner context.Context) (int, error) {
				require.NotEqual(t, ctx, inner)
				return 0, nil
			})
		})
		require.NoError(t, err)
		require.NoError(t, k2.Shutdown(t.Context()))
	})
}

func TestReEntryIntoALostLockDoesNotRun(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Renew, script.Gone())
		_, err := lockmw.Do(t.Context(), k, "a", func(ctx context.Context) (int, error) {
			<-ctx.Done()
			n, err := lockmw.Do(ctx, k, "a", func(context.Context) (int, error) {
				t.Error("it ran")
				return 0, nil
			})
			require.ErrorIs(t, err, renewer.ErrLost)
			return n, err
		})
		require.ErrorIs(t, err, renewer.ErrLost)
		var lost *renewer.LostError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, lost.Error(), err.Error(), "said once")
	})
}

func TestKeysDoNotCollide(t *testing.T) {
	t.Parallel()
	require.Equal(t, "order:42", lockmw.Key("order", "42"))
	require.Equal(t, "email:send:u%3A1", lockmw.Key("email:send", "u:1"))
	require.NotEqual(t, lockmw.Key("p", "a:b", "c"), lockmw.Key("p", "a", "b:c"))
	require.NotEqual(t, lockmw.Key("p", "a%3Ab"), lockmw.Key("p", "a:b"))
	require.Empty(t, lockmw.Key("order", ""))
	require.Empty(t, lockmw.Key("", "42"))
	require.Equal(t, "order", lockmw.Key("order"))
}

func FuzzKeysDoNotCollide(f *testing.F) {
	f.Add("a", "b:c", "a:b", "c")
	f.Add("%", "3A", ":", "")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		first, second := lockmw.Key("p", a, b), lockmw.Key("p", c, d)
		if first != "" && first == second {
			require.Equal(t, [2]string{a, b}, [2]string{c, d})
		}
	})
}
