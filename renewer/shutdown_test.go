package renewer_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// shut runs f in a bubble with a keeper that f shuts down.
func shut(t *testing.T, f func(t *testing.T, s *script.Store, k *renewer.Keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := script.New()
		k, err := renewer.New(s, config)
		require.NoError(t, err)
		f(t, s, k)
		waitFor(time.Hour) // whatever is left must end by itself
	})
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestShutdownRefusesNewcomersAndWaiters(t *testing.T) {
	t.Parallel()
	shut(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a")
		s.Script(script.Acquire, script.Taken(other, time.Hour))
		inLine := waits(t.Context(), k)
		atStore := waits(t.Context(), k, renewer.Request{Name: "b"})
		ended := background(func() error { return k.Shutdown(within(t, time.Minute)) })
		require.ErrorIs(t, <-inLine, renewer.ErrShutdown)
		require.ErrorIs(t, <-atStore, renewer.ErrShutdown)
		_, err := k.Acquire(t.Context(), renewer.Request{Name: "c"})
		require.ErrorIs(t, err, renewer.ErrShutdown)
		waitFor(30 * time.Second)
		require.True(t, l.Valid(), "an operation that runs is waited for, and renewed")
		released := time.Now()
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, <-ended)
		require.Equal(t, released, time.Now(), "and then nothing else")
		require.NoError(t, k.Shutdown(t.Context()), "again, to no effect")
	})
}

func TestShutdownFreesEveryLeaseInBatches(t *testing.T) {
	t.Parallel()
	shut(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		const n = 2500
		leases := make([]*renewer.Lease, n)
		for i := range leases {
			leases[i] = acquire(t, k, fmt.Sprint(i))
		}
		begun := time.Now()
		err := k.Shutdown(within(t, 10*time.Second))
		require.ErrorContains(t, err, "2500 operations still ran")
		require.Less(t, time.Since(begun), 10*time.Second, "before its deadline")
		calls := s.Calls(script.Release)
		require.Len(t, calls, 3)
		for _, l := range leases {
			_, lost := lostAt(t, l)
			require.Equal(t, renewer.ReasonShutdown, lost.Reason)
			require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
		}
		require.Len(t, s.Calls(script.Release), 3, "freed already")
		k2, err := renewer.New(s, config)
		require.NoError(t, err)
		for i := range leases {
			l, err := k2.Acquire(t.Context(), renewer.Request{Name: fmt.Sprint(i), Try: true})
			require.NoError(t, err)
			require.NoError(t, l.Release(t.Context()))
		}
		require.NoError(t, k2.Shutdown(t.Context()))
	})
}

// An operation is told first and has time to stop before its key is freed.
func TestShutdownTellsBeforeItFrees(t *testing.T) {
	t.Parallel()
	shut(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		obedient, stubborn := acquire(t, k, "obedient"), acquire(t, k, "stubborn")
		told := make(chan time.Time, 1)
		context.AfterFunc(obedient.Context(), func() {
			told <- time.Now()
			waitFor(100 * time.Millisecond)
			_ = obedient.Release(context.Background())
		})
		begun := time.Now()
		require.ErrorContains(t, k.Shutdown(within(t, 4*time.Second)), "2 operations still ran")
		assertInstant(t, begun.Add(3*time.Second), <-told, "a quarter before the deadline")
		calls := s.Calls(script.Release)
		last := calls[len(calls)-1]
		require.Equal(t, "stubborn", last.Holds[0].Name)
		require.Greater(t, last.At.Sub(begun), 3100*time.Millisecond)
		require.ErrorIs(t, stubborn.Release(t.Context()), renewer.ErrLost)
	})
}

func TestShutdownReturnsAtItsDeadline(t *testing.T) {
	t.Parallel()
	shut(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a")
		s.Default(script.Release, script.Hang())
		s.Default(script.Renew, script.Hang())
		begun := time.Now()
		err := k.Shutdown(within(t, 2*time.Second))
		require.ErrorContains(t, err, "1 operations still ran")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.LessOrEqual(t, time.Since(begun), 2*time.Second)
		require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
	})
}

// Also when no operation runs, and only what is left to clean up hangs.
func TestShutdownReturnsAtItsDeadlineWithOrphans(t *testing.T) {
	t.Parallel()
	shut(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a")
		s.Default(script.Release, script.Hang())
		require.ErrorIs(t, l.Release(t.Context()), renewer.ErrUnavailable)
		begun := time.Now()
		require.ErrorIs(t, k.Shutdown(within(t, 500*time.Millisecond)), context.DeadlineExceeded)
		assert.LessOrEqual(t, time.Since(begun), 500*time.Millisecond)
	})
}

func TestShutdownTellsWhatCouldNotBeFreed(t *testing.T) {
	t.Parallel()
	shut(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		acquire(t, k, "a")
		s.Default(script.Release, script.Fail(errDown))
		begun := time.Now()
		err := k.Shutdown(within(t, 4*time.Second))
		require.LessOrEqual(t, time.Since(begun), 4*time.Second)
		require.Greater(t, len(s.Calls(script.Release)), 2, "tried again while there was time")
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		require.ErrorIs(t, err, errDown)
		require.ErrorContains(t, err, "1 keys could not be freed, and lapse by themselves")
	})
}

// A lock that is granted while Shutdown begins is drained like any other.
func TestShutdownWaitsForWhatIsBeingGranted(t *testing.T) {
	t.Parallel()
	shut(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Acquire, script.Pass().Late(time.Second))
		got := background(func() error {
			l, err := k.Acquire(t.Context(), renewer.Request{Name: "a"})
			if err != nil {
				return err
			}
			waitFor(5 * time.Second)
			return l.Release(t.Context())
		})
		synctest.Wait()
		begun := time.Now()
		require.NoError(t, k.Shutdown(t.Context()))
		assertInstant(t, begun.Add(6*time.Second), time.Now(), "return")
		require.NoError(t, <-got)
	})
}

// A lease that is granted when Shutdown has told the others is told
// too: nobody would renew it, or end it.
func TestGrantedWhileShutdownFrees(t *testing.T) {
	t.Parallel()
	shut(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Acquire, script.Pass().Late(350*time.Millisecond))
		var l *renewer.Lease
		got := background(func() (err error) {
			l, err = k.Acquire(context.Background(), renewer.Request{Name: "a"})
			return err
		})
		waitFor(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond) // told at 300 ms
		defer cancel()
		over := background(func() error { return k.Shutdown(ctx) })
		require.NoError(t, <-got)
		t.Log("shutdown:", <-over)
		require.ErrorIs(t, context.Cause(l.Context()), renewer.ErrLost)
		require.False(t, l.Valid())
		require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
	})
}

// It used to end the process, in a goroutine that no caller can recover.
func TestShutdownWithoutAContextPanicsInItsCaller(t *testing.T) {
	t.Parallel()
	k, err := renewer.New(script.New(), config)
	require.NoError(t, err)
	assert.Panics(t, func() { _ = k.Shutdown(nil) }) //nolint:staticcheck // that is the mistake
	require.NoError(t, k.Shutdown(within(t, time.Minute)))
}
