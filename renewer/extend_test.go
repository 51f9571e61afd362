package renewer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// usable is what an operation has of a time d: less the clock drift, 1 ms and
// Config.Margin.
func usable(d time.Duration) time.Duration {
	return time.Duration(float64(d)*0.99/1.01) - time.Millisecond - config.Margin
}

func TestAManualLeaseHasNoHeartbeat(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		begun := time.Now()
		l := acquire(t, k, "a", renewer.Request{Manual: time.Minute})
		claim := s.Calls(script.Acquire)[0].Claims[0]
		require.Equal(t, time.Minute, claim.TTL)
		require.True(t, claim.Manual)
		require.InDelta(t, usable(time.Minute), l.Remaining(), float64(rounding))
		at, lost := lostAt(t, l)
		assertInstant(t, begun.Add(usable(time.Minute)), at, "not a moment longer")
		require.Equal(t, renewer.ReasonExpired, lost.Reason)
		require.Empty(t, s.Calls(script.Renew))
		require.ErrorIs(t, l.Extend(t.Context(), time.Minute), renewer.ErrLost, "it is too late")
		require.Empty(t, s.Calls(script.Renew), "and the store is not asked")
		require.Error(t, l.Release(t.Context()))
	})
}

func TestExtend(t *testing.T) {
	t.Parallel()
	inObserved(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper, r *recorder) {
		l := acquire(t, k, "a", renewer.Request{Manual: 10 * time.Second})
		waitFor(5 * time.Second)
		require.NoError(t, l.Extend(t.Context(), 20*time.Second))
		require.InDelta(t, usable(20*time.Second), l.Remaining(), float64(rounding))
		require.NoError(t, l.Extend(t.Context(), 2*time.Second), "shorter than what is left")
		require.InDelta(t, usable(20*time.Second), l.Remaining(), float64(rounding),
			"never shortened")
		require.Equal(t, 20*time.Second, s.Calls(script.Renew)[0].Holds[0].TTL)

		extended := time.Now()
		at, _ := lostAt(t, l)
		assertInstant(t, extended.Add(usable(20*time.Second)), at, "never past what was asked")
		require.Error(t, l.Release(t.Context()))
		require.Equal(t, []renewer.Renewed{{Leases: 1, OK: 1}, {Leases: 1, OK: 1}},
			heard[renewer.Renewed](r))
		require.Equal(t, renewStart{leases: 1, names: []any{"a"}}, heard[renewStart](r)[0])
		require.Equal(t, 2, heard[renewer.Released](r)[0].Renewals)
	})
}

func TestExtensionsThatFail(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a", renewer.Request{Manual: time.Minute})
		end := time.Now().Add(usable(time.Minute))

		s.Script(script.Renew, script.Fail(errDown))
		err := l.Extend(t.Context(), time.Hour)
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		require.ErrorIs(t, err, errDown)
		require.NotErrorIs(t, err, renewer.ErrLost)

		s.Script(script.Renew, script.Hang())
		begun := time.Now()
		require.ErrorIs(t, l.Extend(t.Context(), time.Hour), renewer.ErrUnavailable)
		assertInstant(t, begun.Add(config.RequestTimeout), time.Now(), "bounded")

		s.Script(script.Renew, script.Hang())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = l.Extend(ctx, time.Hour)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, renewer.ErrUnavailable)
		require.WithinDuration(t, end, time.Now().Add(l.Remaining()), rounding,
			"it lasts as long as it did")

		s.Script(script.Renew, script.Gone())
		err = l.Extend(t.Context(), time.Hour)
		require.ErrorIs(t, err, renewer.ErrLost)
		require.ErrorIs(t, context.Cause(l.Context()), renewer.ErrLost, "the operation is told too")
		require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
	})
}

// A confirmation that comes when belief has ended does not bring it back.
func TestALateExtensionIsNone(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a", renewer.Request{Manual: 10 * time.Second})
		waitFor(usable(10*time.Second) - time.Second)
		s.Script(script.Renew, script.Pass().Late(1500*time.Millisecond))
		require.ErrorIs(t, l.Extend(t.Context(), time.Minute), renewer.ErrLost)
		require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
	})
}

func TestWhatCannotBeExtended(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		for _, d := range []time.Duration{-time.Second, time.Microsecond, config.Margin} {
			_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Manual: d})
			require.ErrorIs(t, err, renewer.ErrConfig, "%v", d)
			require.ErrorContains(t, err, "Config.Margin (899ms)")
		}
		require.Empty(t, s.Calls(script.Acquire))
		l := acquire(t, k, "a", renewer.Request{Manual: time.Minute})
		for _, d := range []time.Duration{0, -time.Second, config.Margin} {
			require.ErrorIs(t, l.Extend(t.Context(), d), renewer.ErrConfig, "%v", d)
		}
		require.NoError(t, l.Release(t.Context()))
		require.ErrorContains(t, l.Extend(t.Context(), time.Minute), "released")
		l = acquire(t, k, "a")
		require.ErrorContains(t, l.Extend(t.Context(), time.Minute), "heartbeat")
		require.NoError(t, l.Release(t.Context()))
		require.Empty(t, s.Calls(script.Renew))
	})
}

func TestHoldAtLeast(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Mute(true)
		begun := time.Now()
		l := acquire(t, k, "a")
		l.HoldAtLeast(time.Minute)
		waitFor(time.Second)
		require.NoError(t, l.Release(t.Context()))
		require.Error(t, l.Context().Err())
		require.Equal(t, 59*time.Second, s.Calls(script.Release)[0].Holds[0].Keep)
		_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
		require.ErrorIs(t, err, renewer.ErrBusy, "in this process too")
		next := acquire(t, k, "a")
		require.InDelta(t, time.Minute, time.Since(begun), float64(10*time.Millisecond))
		require.NoError(t, next.Release(t.Context()))

		l = acquire(t, k, "a")
		l.HoldAtLeast(time.Minute)
		waitFor(2 * time.Minute)
		require.NoError(t, l.Release(t.Context()))
		next, err = k.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
		require.NoError(t, err, "held long enough")
		require.NoError(t, next.Release(t.Context()))
	})
}

// A caller who learns after the acquire that it needs the lock for longer says
// so then.
func TestALeaseIsHeldAtLeastFromNow(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a")
		waitFor(10 * time.Second)
		l.HoldAtLeast(time.Minute)
		l.HoldAtLeast(time.Second) // the longer one stands
		l.HoldAtLeast(-time.Hour)
		waitFor(time.Second)
		require.NoError(t, l.Release(t.Context()))
		require.Equal(t, 59*time.Second, s.Calls(script.Release)[0].Holds[0].Keep)
		l.HoldAtLeast(time.Hour)
		waitFor(time.Minute)
		next, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
		require.NoError(t, err, "what is over can't be held longer")
		require.NoError(t, next.Release(t.Context()))
	})
}

// A shutdown does not cut the time short either.
func TestHoldAtLeastSurvivesAShutdown(t *testing.T) {
	t.Parallel()
	shut(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		acquire(t, k, "a").HoldAtLeast(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, k.Shutdown(ctx), "the operation never returned")
		calls := s.Calls(script.Release)
		require.Len(t, calls, 1)
		require.InDelta(t, time.Hour, calls[0].Holds[0].Keep, float64(2*time.Second))
		require.NotEmpty(t, s.Owner("a"))
	})
}

// The key of a lease that was extended beyond its first TTL, which the store
// could not free in that time, was forgotten, and kept others out until the
// end.
func TestAnExtendedKeyIsFreedHoweverLateTheStoreIsBack(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]script.Step{
		"confirmed": script.Pass(), "its answer lost": script.Pass().Broken(errDown),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				l := acquire(t, k, "a", renewer.Request{Manual: 10 * time.Second})
				s.Script(script.Renew, answer)
				_ = l.Extend(t.Context(), 10*time.Minute)
				_ = l.Extend(t.Context(), time.Minute)
				s.Default(script.Release, script.Fail(errDown))
				require.ErrorIs(t, l.Release(t.Context()), renewer.ErrUnavailable)
				waitFor(9 * time.Minute)
				require.NotEmpty(t, s.Owner("a"))
				s.Default(script.Release, script.Pass())
				waitFor(2 * time.Second)
				require.Empty(t, s.Owner("a"))
			})
		})
	}
}

// Shutdown gave such a key up after Config.TTL, with time left.
func TestShutdownFreesALongLeaseHoweverLateTheStoreIsBack(t *testing.T) {
	t.Parallel()
	shut(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a", renewer.Request{Manual: time.Hour})
		s.Default(script.Release, script.Fail(errDown))
		require.ErrorIs(t, l.Release(t.Context()), renewer.ErrUnavailable)
		go func() {
			waitFor(10 * config.TTL)
			s.Default(script.Release, script.Pass())
		}()
		require.NoError(t, k.Shutdown(within(t, 11*config.TTL)))
		require.Empty(t, s.Owner("a"))
	})
}
