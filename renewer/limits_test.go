package renewer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestMaxHoldEndsALease(t *testing.T) {
	t.Parallel()
	cfg := config
	cfg.MaxHold = time.Minute
	inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		begun := time.Now()
		l := acquire(t, k, "a")
		waitFor(59 * time.Second)
		require.True(t, l.Valid())
		require.LessOrEqual(t, l.Remaining(), time.Second)
		at, lost := lostAt(t, l)
		assertInstant(t, begun.Add(time.Minute), at, "end of the context")
		require.Equal(t, renewer.ReasonMaxHold, lost.Reason)
		require.Positive(t, lost.Left, "the key is still ours for a while")
		require.ErrorContains(t, lost, "Config.MaxHold")
		n := len(s.Calls(script.Renew))
		waitFor(20 * time.Second)
		require.Len(t, s.Calls(script.Renew), n, "it is not renewed any more")
		require.NoError(t, errors.Unwrap(l.Release(t.Context())))
	})
}

// A call's own MaxHold is longer or shorter than the keeper's, or none; a
// leader has none.
func TestMaxHoldOfACall(t *testing.T) {
	t.Parallel()
	cfg := config
	cfg.MaxHold = time.Minute
	for name, c := range map[string]struct {
		request renewer.Request
		want    time.Duration // 0: no bound
	}{
		"longer":   {renewer.Request{MaxHold: 5 * time.Minute}, 5 * time.Minute},
		"shorter":  {renewer.Request{MaxHold: 3 * time.Second}, 3 * time.Second},
		"none":     {renewer.Request{MaxHold: math.MaxInt64}, 0},
		"a leader": {renewer.Request{LongRunning: true}, 0},
		"a leader's": {
			renewer.Request{MaxHold: 5 * time.Minute, LongRunning: true},
			5 * time.Minute,
		},
		"without heartbeat": {
			renewer.Request{Manual: 5 * time.Minute, MaxHold: 3 * time.Minute},
			3 * time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				begun := time.Now()
				l := acquire(t, k, "a", c.request)
				if c.want == 0 {
					waitFor(10 * time.Minute)
					require.True(t, l.Valid())
					require.NoError(t, l.Release(t.Context()))
					return
				}
				at, lost := lostAt(t, l)
				assertInstant(t, begun.Add(c.want), at, "end of the context")
				require.Equal(t, renewer.ReasonMaxHold, lost.Reason)
				require.ErrorContains(t, lost, fmt.Sprintf(
					"it was held for %v, as long as the option MaxHold of its call allows", c.want))
				require.NotContains(t, lost.Error(), "Config")
				require.NoError(t, errors.Unwrap(l.Release(t.Context())))
			})
		})
	}
}

func TestCancelGraceEndsALease(t *testing.T) {
	t.Parallel()
	cfg := config
	cfg.CancelGrace = 30 * time.Second
	inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		ctx, cancel := context.WithCancel(t.Context())
		stubborn, err := k.Acquire(ctx, renewer.Request{Name: "a"})
		require.NoError(t, err)
		obedient, err := k.Acquire(ctx, renewer.Request{Name: "b"})
		require.NoError(t, err)
		waitFor(time.Hour)
		cancel()
		waitFor(29 * time.Second)
		require.NoError(t, obedient.Release(ctx))
		require.True(t, stubborn.Valid())
		waitFor(time.Second)
		synctest.Wait()
		require.False(t, stubborn.Valid())
		var lost *renewer.LostError
		require.ErrorAs(t, stubborn.Err(), &lost)
		require.Equal(t, renewer.ReasonAbandoned, lost.Reason)
		require.ErrorIs(t, context.Cause(stubborn.Context()), context.Canceled,
			"its context had ended before")
		require.ErrorIs(t, stubborn.Release(ctx), renewer.ErrLost)
	})
}

// Also one that is shorter than the second in which the end loop looks around
// anyway.
func TestAShortCancelGraceEndsAtAnExactInstant(t *testing.T) {
	t.Parallel()
	cfg := config
	cfg.CancelGrace = 30 * time.Millisecond
	inBubble(t, cfg, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		ctx, cancel := context.WithCancel(t.Context())
		l, err := k.Acquire(ctx, renewer.Request{Name: "a"})
		require.NoError(t, err)
		for range 10 {
			waitFor(777 * time.Millisecond)
			require.True(t, l.Valid())
		}
		cancel()
		waitFor(30*time.Millisecond - time.Nanosecond)
		synctest.Wait()
		require.NoError(t, l.Err())
		waitFor(time.Microsecond)
		synctest.Wait()
		require.ErrorIs(t, l.Err(), renewer.ErrLost)
		require.ErrorIs(t, l.Release(ctx), renewer.ErrLost)
	})
}

// A machine that sleeps loses time that its monotonic clock does not show.
func TestSleepCountsAgainstTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		s := script.New()
		k, err := renewer.NewOnSleepyMachine(s, config, func() time.Duration {
			return time.Duration(slept.Load())
		})
		require.NoError(t, err)
		s.Default(script.Renew, script.Hang()) // so that no answer makes anybody look at the clock
		l := acquire(t, k, "a")
		waitFor(time.Second)
		slept.Add(int64(500 * time.Microsecond))
		require.InDelta(t, goodFor-time.Second, l.Remaining(), float64(rounding),
			"less than a millisecond is jitter")
		slept.Store(int64(2 * time.Second))
		require.InDelta(t, goodFor-3*time.Second, l.Remaining(), float64(rounding))
		require.True(t, l.Valid())
		slept.Store(int64(20 * time.Second))
		require.False(t, l.Valid(), "right on the first look")
		woke := time.Now()
		at, lost := lostAt(t, l)
		require.LessOrEqual(t, at.Sub(woke), time.Second, "and the context within a second")
		require.Equal(t, renewer.ReasonExpired, lost.Reason)
		require.Zero(t, lost.Left)
		require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
		require.NoError(t, k.Shutdown(t.Context()))
	})
}

func TestReleaseOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	onHooked(t, config, func(t *testing.T, s *hooked, k *renewer.Keeper) {
		var value any
		var ended error
		s.release = func(ctx context.Context, holds []store.Hold) []store.Answer {
			ctx, cancel := context.WithTimeout(ctx, time.Second) // as a store may
			defer cancel()
			value, ended = ctx.Value(valueKey{}), context.Cause(ctx)
			return s.Store.Release(ctx, holds)
		}
		l := acquire(t, k, "a")
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "trace"))
		cancel()
		require.NoError(t, l.Release(ctx))
		require.Equal(t, "trace", value, "its values are there")
		require.NoError(t, ended, "its end is not")
		next, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
		require.NoError(t, err)
		require.NoError(t, next.Release(t.Context()))
	})
}

// A release that is not answered within its bound is carried on with in the
// background.
func TestAnUnansweredReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a")
		s.Script(script.Release, script.Hang(), script.Fail(errDown))
		begun := time.Now()
		err := l.Release(t.Context())
		require.LessOrEqual(t, time.Since(begun), config.RequestTimeout)
		require.GreaterOrEqual(t, time.Since(begun), config.RequestTimeout*15/16)
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, renewer.ErrLost)
		waitFor(time.Second)
		require.Len(t, s.Calls(script.Release), 3)
		l = acquire(t, k, "a")
		require.NoError(t, l.Release(t.Context()))
	})
}

// A release of a lease that is lost to a dead link does not wait for the link.
func TestReleaseAfterALossDoesNotWait(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a")
		s.Default(script.Renew, script.Hang())
		s.Script(script.Release, script.Hang())
		<-l.Context().Done()
		begun := time.Now()
		require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
		assert.Equal(t, begun, time.Now())
		waitFor(config.TTL) // the key is deleted in the background
		require.Len(t, s.Calls(script.Release), 2)
	})
}
