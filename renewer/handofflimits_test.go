package renewer_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// Limits and options are each holder's own.
func TestLimitsOverHandOffs(t *testing.T) {
	t.Parallel()
	cfg := config
	cfg.MaxHold, cfg.CancelGrace, cfg.HandOffFor = 5*time.Second, time.Second, time.Minute
	inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		callers := line(t, s, k, 3)
		waitFor(time.Second)
		require.True(t, callers[0].free(t, callers[1], nil))
		handed := time.Now()
		at, lost := lostAt(t, callers[1].lease)
		require.Equal(t, renewer.ReasonMaxHold, lost.Reason)
		assertInstant(t, handed.Add(5*time.Second), at, "a limit of its own")
		require.ErrorIs(t, callers[1].lease.Release(t.Context()), renewer.ErrLost)
		<-callers[2].got
		require.NoError(t, callers[2].err)

		require.NoError(t, callers[2].lease.Release(t.Context()))
		next := line(t, s, k, 2)
		require.True(t, next[0].free(t, next[1], nil))
		next[0].leave() // its grace is not the next one's
		waitFor(2 * time.Second)
		require.True(t, next[1].lease.Valid())
		next[1].leave()
		waitFor(time.Second + time.Millisecond)
		require.ErrorAs(t, next[1].lease.Err(), &lost)
		require.Equal(t, renewer.ReasonAbandoned, lost.Reason)
		require.ErrorIs(t, next[1].lease.Release(t.Context()), renewer.ErrLost)
	})
}

// A lease that is handed over is bounded as the call says that receives it.
func TestTheReceiversMaxHold(t *testing.T) {
	t.Parallel()
	cfg := config
	cfg.MaxHold, cfg.HandOffFor = time.Minute, time.Hour
	inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		before := acquire(t, k, "a")
		callers := []*caller{
			startAcquire(t, s, k, renewer.Request{MaxHold: 5 * time.Second}),
			startAcquire(t, s, k, renewer.Request{MaxHold: math.MaxInt64}),
			startAcquire(t, s, k), startAcquire(t, s, k, renewer.Request{MaxHold: 2 * time.Minute}),
			startAcquire(t, s, k, renewer.Request{LongRunning: true}),
			startAcquire(t, s, k, renewer.Request{MaxHold: 3 * time.Second}),
		}
		require.NoError(t, before.Release(t.Context()))
		<-callers[0].got
		for i, held := range []time.Duration{
			5*time.Second - time.Millisecond, 2 * time.Minute, time.Minute - time.Millisecond,
			2*time.Minute - time.Millisecond, 5 * time.Minute,
		} {
			waitFor(held)
			require.True(t, callers[i].lease.Valid(), i)
			require.True(t, callers[i].free(t, callers[i+1], nil), i)
		}
		handed := time.Now()
		at, lost := lostAt(t, callers[5].lease)
		assertInstant(t, handed.Add(3*time.Second), at, "its own")
		require.Equal(t, renewer.ReasonMaxHold, lost.Reason)
		require.ErrorContains(t, lost, "held for 3s")
		require.ErrorIs(t, callers[5].lease.Release(t.Context()), renewer.ErrLost)
	})
}

// A lease handed over is held for as long as its HoldAtLeast says.
func TestHoldAtLeastAfterAHandOff(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		before := acquire(t, k, "a")
		first := startAcquire(t, s, k)
		least := startAcquire(t, s, k)
		require.NoError(t, before.Release(t.Context()))
		<-first.got
		require.True(t, first.free(t, least, nil))
		least.lease.HoldAtLeast(4 * time.Second)
		require.NoError(t, least.lease.Release(t.Context()))
		require.NotEmpty(t, s.Owner("a"))
		waitFor(4*time.Second + time.Millisecond)
		require.Empty(t, s.Owner("a"))
	})
}

func TestShutdownDuringHandOffs(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		callers := line(t, s, k, 3)
		waitFor(aToken)
		ended := background(func() error { return k.Shutdown(within(t, time.Minute)) })
		synctest.Wait()
		require.NoError(t, callers[0].lease.Release(t.Context()))
		require.NoError(t, <-ended)
		for _, c := range callers[1:] {
			require.ErrorIs(t, c.err, renewer.ErrShutdown)
		}
		require.Empty(t, s.Owner("a"))
	})
}
