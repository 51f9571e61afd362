package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// inside is an inner call under way on a goroutine of its own.
type inside struct {
	ctx   context.Context // what its function was given
	leave chan func()     // has it return when it has run what it gets
	over  chan error
}

// goInside begins an inner call on name, and returns when its function runs.
func goInside[N lockmw.Name](
	ctx context.Context, k *renewer.Keeper, name N, opts ...lockmw.Option,
) *inside {
	call := &inside{leave: make(chan func()), over: make(chan error, 1)}
	runs := make(chan struct{})
	go func() {
		var err error
		defer func() {
			_ = recover()
			call.over <- err
		}()
		_, err = lockmw.Do(ctx, k, name, func(ctx context.Context) (int, error) {
			call.ctx = ctx
			close(runs)
			(<-call.leave)()
			return 0, nil
		}, opts...)
	}()
	<-runs
	return call
}

func (c *inside) end() error {
	c.leave <- func() {}
	return <-c.over
}

// The last to leave frees the lock, whichever call that is; no call waits for
// another.
func TestAnInnerCallOutlivesTheOuter(t *testing.T) {
	t.Parallel()
	boom := func() { panic("boom") }
	for _, outer := range []lockmw.Set{lockmw.All("a"), lockmw.All("a", "b")} {
		for _, inner := range []lockmw.Set{lockmw.All("a"), outer} {
			for how, returns := range map[string]func(){
				"returns": func() {}, "panics": boom,
				"exits": runtime.Goexit,
			} {
				for _, detached := range []bool{false, true} {
					t.Run(fmt.Sprintf("%d in %d %s %v", len(lockmw.Split(inner)),
						len(lockmw.Split(outer)), how, detached), func(t *testing.T) {
						t.Parallel()
						inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
							var call *inside
							ended := make(chan struct{})
							go func() {
								defer close(ended)
								defer func() { _ = recover() }()
								_, _ = lockmw.Do(t.Context(), k, outer,
									func(ctx context.Context) (int, error) {
										if detached {
											ctx = context.WithoutCancel(ctx)
										}
										call = goInside(ctx, k, inner, lockmw.Strict())
										returns()
										return 0, nil
									})
							}()
							<-ended // without waiting for the inner call
							elapse(time.Minute)
							require.NotEmpty(t, s.Owner("a"), "the heartbeat goes on")
							require.NoError(t, call.ctx.Err())
							require.True(t, lockmw.Held(call.ctx, "a"))
							require.NoError(t, call.end())
							require.Empty(t, s.Owner("a"))
							require.Empty(t, s.Owner("b"))
							require.Error(t, call.ctx.Err())
							require.Len(t, s.Calls(script.Release), 1)
						})
					})
				}
			}
		}
	}
}

// An inner call hears of a loss by its context: also by one that was
// detached from the outer call's, and after the outer caller has gone.
func TestADetachedInnerCallHearsOfTheLoss(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		for _, outer := range []lockmw.Set{lockmw.All("a"), lockmw.All("a", "b")} {
			t.Run(fmt.Sprint(gone, len(lockmw.Split(outer))), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					var call *inside
					n, err := lockmw.Do(ctx, k, outer, func(ctx context.Context) (int, error) {
						call = goInside(context.WithoutCancel(ctx), k, "a", lockmw.Strict())
						return 42, nil
					}, lockmw.Strict())
					require.NoError(t, err)
					require.Equal(t, 42, n)
					if gone {
						cancel()
						elapse(time.Minute)
						require.NoError(t, call.ctx.Err(), "the lock is held")
					}
					begun := time.Now()
					s.Overwrite("a", other, time.Hour)
					<-call.ctx.Done()
					require.Less(t, time.Since(begun), renewer.DefaultTTL)
					require.ErrorIs(t, context.Cause(call.ctx), renewer.ErrLost)
					require.False(t, lockmw.Held(call.ctx, "a"))
					require.ErrorIs(t, call.end(), renewer.ErrLost)
				})
			})
		}
	}
}

func TestHoldAtLeastOfAnInnerCall(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][2][]lockmw.Option{
		"outer": {{lockmw.HoldAtLeast(time.Minute)}, nil},
		"inner": {nil, {lockmw.HoldAtLeast(time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				var call *inside
				_, err := lockmw.Do(t.Context(), k, "a", func(ctx context.Context) (int, error) {
					call = goInside(ctx, k, "a", opts[1]...)
					return 0, nil
				}, opts[0]...)
				require.NoError(t, err)
				elapse(time.Second)
				require.NoError(t, call.end())
				elapse(58 * time.Second)
				require.NotEmpty(t, s.Owner("a"))
				elapse(2 * time.Second)
				require.Empty(t, s.Owner("a"))
			})
		})
	}
}

// What is over is not found, however its context was kept: not by a later call,
// nor by the helpers.
func TestALockThatIsOverIsNotFound(t *testing.T) {
	t.Parallel()
	for _, lose := range []bool{false, true} {
		for _, name := range []lockmw.Set{lockmw.All("a"), lockmw.All("a", "b")} {
			t.Run(fmt.Sprint(lose, len(lockmw.Split(name))), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
					var fence int64
					var leaked context.Context
					_, err := lockmw.Do(adapter.WithFence(t.Context(), 7), k, name,
						func(ctx context.Context) (int, error) {
							if lose {
								s.Script(script.Renew, script.Gone())
								<-ctx.Done()
							}
							fence = lockmw.Fence(ctx)
							//nolint:fatcontext // to leak it is the point
							leaked = context.WithoutCancel(ctx)
							return 0, nil
						})
					require.NoError(t, err)
					require.False(t, lockmw.Held(leaked, name))
					require.Equal(t, int64(7), lockmw.Fence(leaked), "that of the caller around it")
					require.Zero(t, lockmw.FenceOf(leaked, "a"))
					require.Zero(t, lockmw.Remaining(leaked))
					require.ErrorIs(t, lockmw.Extend(leaked, time.Minute), lockmw.ErrNotHeld)
					_, err = lockmw.Do(leaked, k, name, func(ctx context.Context) (int, error) {
						require.Greater(t, lockmw.Fence(ctx), fence)
						require.True(t, lockmw.Held(ctx, name))
						return 0, nil
					})
					require.NoError(t, err)
				})
			})
		}
	}
}

// An inner call costs nothing that outlives it, although the outer one goes on
// for weeks.
func TestInnerCallsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		_, err := lockmw.Do(t.Context(), k, "a", func(ctx context.Context) (int, error) {
			for range 100 {
				var inner context.Context
				n, err := lockmw.Do(context.WithoutCancel(ctx), k, "a",
					func(ctx context.Context) (int, error) {
						inner = ctx //nolint:fatcontext // a variable of each round
						return 1, nil
					})
				require.NoError(t, err)
				require.Equal(t, 1, n)
				require.ErrorIs(t, inner.Err(), context.Canceled)
				require.NotErrorIs(t, context.Cause(inner), renewer.ErrLost)
			}
			return 0, nil
		})
		require.NoError(t, err)
	})
}

// Call chains at random, in which calls outlive those around them: while any of
// them runs, the lock is held by the lease that it began in, and when the last
// has left it is free.
func TestRandomCallChains(t *testing.T) {
	t.Parallel()
	sets := []lockmw.Set{
		lockmw.All("a"), lockmw.All("b"), lockmw.All("a", "b"), lockmw.All("b", "c"),
	}
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				var mu sync.Mutex
				dice := rand.New(rand.NewPCG(seed, 1))
				roll := func(n int) int { mu.Lock(); defer mu.Unlock(); return dice.IntN(n) }
				var all sync.WaitGroup
				var chain func(ctx context.Context, depth int)
				chain = func(ctx context.Context, depth int) {
					defer func() { _ = recover() }()
					name := sets[roll(len(sets))]
					_, err := lockmw.Do(ctx, k, name, func(ctx context.Context) (int, error) {
						one := adapter.NamesOf(name)[0]
						owner, fence := s.Owner(one), lockmw.FenceOf(ctx, one)
						for range roll(4) {
							if depth < 3 {
								inner := ctx
								if roll(2) == 0 {
									inner = context.WithoutCancel(ctx)
								}
								all.Go(func() { chain(inner, depth+1) })
							}
							elapse(time.Duration(roll(3000)) * time.Millisecond)
						}
						if ctx.Err() == nil &&
							(!lockmw.Held(ctx, name) || s.Owner(one) != owner ||
								lockmw.FenceOf(ctx, one) != fence) {
							t.Errorf("%q is not held, although its call runs", one)
						}
						if roll(5) == 0 {
							panic("boom")
						}
						return 0, nil
					}, lockmw.Wait(time.Minute))
					if err != nil && !errors.Is(err, renewer.ErrBusy) &&
						!errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				}
				for range 4 {
					all.Go(func() { chain(t.Context(), 0) })
				}
				all.Wait()
				for _, name := range []string{"a", "b", "c"} {
					require.Empty(t, s.Owner(name))
				}
			})
		})
	}
}
