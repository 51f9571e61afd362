package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// lead runs RunWhileHeld in the background and gives its error.
func lead(ctx context.Context, k *renewer.Keeper, fn func(context.Context) error) <-chan error {
	c := make(chan error, 1)
	go func() { c <- lockmw.Lead(ctx, k, "leader", fn, lockmw.Operation("lead")) }()
	return c
}

func TestOneLeads(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		leading, most := 0, 0
		fn := func(ctx context.Context) error {
			leading++
			most = max(most, leading)
			require.True(t, lockmw.Held(ctx, "leader"))
			<-ctx.Done()
			leading--
			return ctx.Err()
		}
		first, resign := context.WithCancel(t.Context())
		a := lead(first, k, fn)
		synctest.Wait()
		second, stop := context.WithCancel(t.Context())
		b := lead(second, k, fn)
		elapse(time.Hour)
		synctest.Wait()
		require.Equal(t, 1, leading)

		resign()
		synctest.Wait()
		require.ErrorIs(t, <-a, context.Canceled)
		require.Equal(t, 1, leading, "the successor, at once")
		require.Equal(t, "lead", s.Calls(script.Acquire)[0].Claims[0].Holder.Operation)
		stop()
		require.ErrorIs(t, <-b, context.Canceled)
		require.Equal(t, 1, most)
		free(t, k, "leader")
	})
}

// A leader whose lead is lost hears of it, stands by, and leads again when it
// can. Many a loop ends without an error when its context ends: it has not done
// its work for good then.
func TestALostLeadIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} {
		inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
			ctx, cancel := context.WithCancel(t.Context())
			var fences []int64
			done := lead(ctx, k, func(ctx context.Context) error {
				fences = append(fences, lockmw.Fence(ctx))
				<-ctx.Done()
				if len(fences) < 3 {
					require.ErrorIs(t, context.Cause(ctx), renewer.ErrLost)
				}
				if silent {
					return nil
				}
				return ctx.Err()
			})
			s.Script(script.Renew, script.Gone(), script.Gone())
			elapse(time.Minute)
			synctest.Wait()
			require.Len(t, fences, 3)
			require.Less(t, fences[0], fences[1])
			require.Less(t, fences[1], fences[2])
			cancel()
			require.Equal(t, silent, <-done == nil)
		})
	}
}

func TestALeadersOwnResultIsReturned(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(context.Context, *script.Store){
		"held": func(context.Context, *script.Store) {},
		"lost": func(ctx context.Context, s *script.Store) {
			s.Script(script.Renew, script.Gone())
			<-ctx.Done()
		},
		"found lost at the release": func(_ context.Context, s *script.Store) {
			s.Script(script.Release, script.Gone())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, own := range []error{nil, errOperation} {
				if own == nil && name == "lost" {
					continue // see TestALostLeadIsTakenUpAgain
				}
				inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
					err := lockmw.Lead(t.Context(), k, "leader",
						func(ctx context.Context) error {
							lose(ctx, s)
							return own
						})
					if own == nil {
						require.NoError(t, err, "it has done its work")
						return
					}
					require.ErrorIs(t, err, errOperation)
					require.Equal(t, name != "held", errors.Is(err, renewer.ErrLost))
				})
			}
		})
	}
}

// What the function says when the lead and the caller's context end together is
// not lost.
func TestALeadersErrorIsNotHidden(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s.Script(script.Renew, script.Gone())
		err := lockmw.Lead(ctx, k, "leader", func(ctx context.Context) error {
			<-ctx.Done()
			cancel()
			return fmt.Errorf("%w: flush of 17 records: %w", errOperation, ctx.Err())
		})
		require.ErrorIs(t, err, errOperation)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, renewer.ErrLost)
		require.ErrorContains(t, err, "flush of 17 records")
	})
}

func TestStandingByOutlastsTheStore(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Mute(true)
		s.Default(script.Acquire, script.Fail(errDown))
		done := lead(t.Context(), k, func(context.Context) error { return nil })
		elapse(time.Hour)
		s.Default(script.Acquire, script.Pass())
		require.NoError(t, <-done)
	})
}

func TestLeadingWithinTheLock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		_, err := lockmw.Do(t.Context(), k, "leader", func(ctx context.Context) (int, error) {
			return 0, lockmw.Lead(ctx, k, "leader", func(ctx context.Context) error {
				require.True(t, lockmw.Held(ctx, "leader"))
				return nil
			})
		})
		require.NoError(t, err)
		require.Len(t, s.Calls(script.Acquire), 1)
		nothing := func(context.Context) error { return nil }
		require.ErrorIs(t, lockmw.Lead(t.Context(), k, "", nothing), renewer.ErrName)
	})
}
