package lockmw_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestSeveralLocks(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Default(script.Acquire, script.Pass().Late(time.Second))
		begun := time.Now()
		n, err := lockmw.Do(t.Context(), k, lockmw.All("b", "a", "c", "a"),
			func(ctx context.Context) (int, error) {
				require.Equal(t, time.Second, time.Since(begun), "all at once")
				require.Len(t, s.Calls(script.Acquire), 1, "one request")
				for _, name := range []string{"a", "b", "c"} {
					require.True(t, lockmw.Held(ctx, name))
					require.Positive(t, lockmw.FenceOf(ctx, name))
				}
				require.Zero(t, lockmw.FenceOf(ctx, "d"))
				require.True(t, lockmw.Held(ctx, lockmw.All("a", "c")))
				require.False(t, lockmw.Held(ctx, lockmw.All("a", "d")))
				require.Equal(t, lockmw.FenceOf(ctx, "a"), lockmw.Fence(ctx))
				require.Positive(t, lockmw.Remaining(ctx))
				return lockmw.Do(ctx, k, "b", answer, lockmw.Refuse()) // runs inside
			})
		require.NoError(t, err)
		require.Equal(t, 42, n)
		require.Len(t, s.Calls(script.Release), 1)
		for _, name := range []string{"a", "b", "c"} {
			require.Empty(t, s.Owner(name))
		}
	})
}

// The function hears when any of them is lost.
func TestTheLossOfAnyEndsAll(t *testing.T) {
	t.Parallel()
	for _, contended := range []bool{false, true} {
		for _, lose := range []string{"a", "b", "c"} {
			t.Run(fmt.Sprint(lose, contended), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
					if contended { // so that they are taken in order
						s.Script(script.Acquire, script.Each(
							script.Pass(), script.Taken(other, time.Second), script.Pass()))
					}
					_, err := lockmw.Do(t.Context(), k, lockmw.All("a", "b", "c"),
						func(ctx context.Context) (int, error) {
							s.Overwrite(lose, other, time.Hour)
							<-ctx.Done()
							require.ErrorIs(t, context.Cause(ctx), renewer.ErrLost)
							require.False(t, lockmw.Held(ctx, lose))
							require.Zero(t, lockmw.Remaining(ctx))
							return 0, ctx.Err()
						})
					require.ErrorIs(t, err, renewer.ErrLost)
					require.ErrorIs(t, err, context.Canceled)
					require.NotEmpty(t, s.Owner(lose), "the other's")
				})
			})
		}
	}
}

// Many callers, each of whom wants two of a few in an order of its own, never
// wait in a circle.
func TestNoDeadlock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Mute(true)
		names := []string{"a", "b", "c", "d"}
		inside := make([]int, len(names)) // each under its lock
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				i, j := rand.IntN(len(names)), rand.IntN(len(names))
				_, err := lockmw.Do(t.Context(), k, lockmw.All(names[i], names[j]),
					func(context.Context) (int, error) {
						inside[i]++
						inside[j] += 2
						elapse(10 * time.Millisecond)
						inside[i]--
						inside[j] -= 2
						if inside[i] != 0 || inside[j] != 0 {
							t.Error("overlap")
						}
						return 0, nil
					}, lockmw.Wait(time.Hour))
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

func TestAll(t *testing.T) {
	t.Parallel()
	require.Equal(t, lockmw.All("a", "b"), lockmw.All("b", "a", "b"))
	require.NotEqual(t, lockmw.All("a", "b"), lockmw.All("a", "b", "c"))
	require.Equal(t, lockmw.All("a"), lockmw.All("a", "a"))
	require.Equal(t, lockmw.All("a", "b", "c"), lockmw.All("c", "a").And(lockmw.All("b")))
	type account string
	require.Equal(t, lockmw.All("a", "b"), lockmw.All(account("a"), account("b")))
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		for _, name := range []lockmw.Set{
			{},
			lockmw.All[string](), lockmw.All(""), lockmw.All("a", ""),
			lockmw.All("a", strings.Repeat("x", store.MaxName+1)),
			lockmw.Invalid(errOperation), lockmw.Invalid(errOperation).And(lockmw.All("a")),
		} {
			_, err := lockmw.Do(t.Context(), k, name, answer)
			require.Equal(t, adapter.RefusalName, adapter.RefusalOf(err))
			require.False(t, lockmw.Held(t.Context(), name))
			require.Zero(t, lockmw.FenceOf(t.Context(), name))
		}
		require.ErrorIs(t, lockmw.Lead(t.Context(), k, lockmw.All("a", "b"),
			func(context.Context) error {
				return nil
			}), renewer.ErrConfig)
		require.Empty(t, s.Calls(script.Acquire))
	})
}

// All or none: what could be had is given back, whatever the policy, and is
// free at once, since nothing ran.
func TestAllOrNone(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]lockmw.Option{
		"refuse": lockmw.Refuse(),
		"skip":   lockmw.Skip(), "wait": lockmw.Wait(3 * time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				_, exit, err := adapter.Enter(t.Context(), k, "b")
				require.NoError(t, err)
				keys := lockmw.All("c", "b", "a")
				begun := time.Now()
				_, err = lockmw.Do(t.Context(), k, keys, answer, opt, lockmw.HoldAtLeast(time.Hour))
				if name == "skip" {
					require.ErrorIs(t, err, lockmw.ErrSkipped)
				} else {
					require.ErrorIs(t, err, renewer.ErrBusy)
				}
				if name == "wait" {
					require.Equal(t, 3*time.Second, time.Since(begun))
				}
				require.ErrorContains(t, err, `"b"`)
				require.Empty(t, s.Owner("a"))
				require.Empty(t, s.Owner("c"))
				require.NoError(t, exit(nil))

				_, err = lockmw.Do(t.Context(), k, keys, answer, opt, lockmw.HoldAtLeast(time.Hour))
				require.NoError(t, err)
				elapse(59 * time.Minute)
				for _, one := range adapter.NamesOf(keys) {
					require.NotEmpty(t, s.Owner(one))
				}
				elapse(2 * time.Minute)
				free(t, k, "a")
			})
		})
	}
}

func TestExtendExtendsAll(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		_, err := lockmw.Do(t.Context(), k, "c", func(ctx context.Context) (int, error) {
			return lockmw.Do(ctx, k, lockmw.All("a", "b", "c"),
				func(ctx context.Context) (int, error) {
					for range 10 {
						elapse(20 * time.Second)
						require.NoError(t, lockmw.Extend(ctx, time.Minute), "c has a heartbeat")
					}
					require.NoError(t, ctx.Err())
					require.Greater(t, lockmw.Remaining(ctx), 9*time.Second)
					require.ErrorIs(t, lockmw.Extend(ctx, time.Nanosecond), renewer.ErrConfig)
					s.Script(script.Renew, script.Each(script.Gone()))
					require.ErrorIs(t, lockmw.Extend(ctx, time.Minute), renewer.ErrLost)
					return 0, nil
				}, lockmw.Manual(time.Minute))
		})
		require.NoError(t, err)
	})
}

// A lock of the call chain that is lost stays lost: to ask again for those
// beside it mends nothing.
func TestSeveralUnderALostLockEndAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		_, err := lockmw.Do(t.Context(), k, "a", func(ctx context.Context) (int, error) {
			s.Script(script.Renew, script.Gone())
			<-ctx.Done()
			asked, begun := len(s.Calls(script.Acquire)), time.Now()
			_, err := lockmw.Do(context.WithoutCancel(ctx), k, lockmw.All("a", "b"), answer,
				lockmw.Wait(50*time.Millisecond))
			require.ErrorIs(t, err, renewer.ErrLost)
			require.Equal(t, adapter.RefusalLost, adapter.RefusalOf(err))
			require.Zero(t, time.Since(begun))
			require.Len(t, s.Calls(script.Acquire), asked)
			return 0, nil
		})
		require.NoError(t, err)
	})
}
