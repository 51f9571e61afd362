package renewer_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// With a context that has ended, as signal.NotifyContext's has, Shutdown tells
// the operation and returns at once. The key is not freed under it: it has its
// Margin.
func TestShutdownWithoutTimeFreesNothingUnderAnOperation(t *testing.T) {
	t.Parallel()
	shut(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a")
		begun := time.Now()
		err := k.Shutdown(ended())
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "1 operations still ran")
		at, lost := lostAt(t, l)
		assertInstant(t, begun, at, "told, and Shutdown returns, at once")
		require.Equal(t, renewer.ReasonShutdown, lost.Reason)
		waitFor(config.Margin - time.Millisecond)
		require.Empty(t, s.Calls(script.Release))
		require.NotEmpty(t, s.Owner("a"), "the next must not begin")
		waitFor(2 * time.Millisecond)
		require.Empty(t, s.Owner("a"), "it has had its notice")
		require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
		require.Len(t, s.Calls(script.Release), 1, "freed already")
	})
}

// The operation returns before its notice is over, when Shutdown has
// returned: its key is freed at once.
func TestReleaseAfterShutdownWithoutTime(t *testing.T) {
	t.Parallel()
	shut(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a")
		require.Error(t, k.Shutdown(ended()))
		waitFor(200 * time.Millisecond)
		require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
		synctest.Wait()
		require.Empty(t, s.Owner("a"))
		begun := time.Now()
		require.ErrorContains(t, k.Shutdown(t.Context()), "1 operations still ran",
			"what the first came to")
		require.Zero(t, time.Since(begun), "nothing is waited for any more")
	})
}

// The store was down when Shutdown freed keys, and is back when the
// operation returns: that frees its own.
func TestReleaseAfterAShutdownThatCouldNotFree(t *testing.T) {
	t.Parallel()
	shut(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a")
		s.Default(script.Release, script.Fail(errDown))
		require.ErrorIs(t, k.Shutdown(within(t, 2*time.Second)), context.DeadlineExceeded)
		waitFor(config.Margin)
		s.Default(script.Release, script.Hang())
		begun := time.Now()
		require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
		assertInstant(t, begun.Add(config.RequestTimeout), time.Now(), "bounded")
	})
	shut(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a")
		s.Default(script.Release, script.Fail(errDown))
		require.Error(t, k.Shutdown(within(t, 2*time.Second)))
		waitFor(config.Margin)
		s.Default(script.Release, script.Pass())
		require.NotEmpty(t, s.Owner("a"))
		require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
		require.Empty(t, s.Owner("a"))
	})
}

// An operation that was told of another loss a moment ago has its notice too,
// and is no clean end.
func TestShutdownAfterALossOfAnotherKind(t *testing.T) {
	t.Parallel()
	cfg := config
	cfg.MaxHold = 5 * time.Second
	synctest.Test(t, func(t *testing.T) {
		s := script.New()
		k, err := renewer.New(s, cfg)
		require.NoError(t, err)
		l := acquire(t, k, "a")
		told, lost := lostAt(t, l)
		require.Equal(t, renewer.ReasonMaxHold, lost.Reason)
		waitFor(100 * time.Millisecond)
		require.ErrorContains(t, k.Shutdown(within(t, 10*time.Millisecond)),
			"1 operations still ran")
		waitFor(config.Margin)
		calls := s.Calls(script.Release)
		require.Len(t, calls, 1)
		assertInstant(t, told.Add(config.Margin), calls[0].At, "freed")
		require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
	})
}

// The notice is told so early that it fits in the time given.
func TestShutdownLeavesRoomForALongMargin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := script.New()
		k, err := renewer.New(s,
			renewer.Config{TTL: 40 * time.Second, Log: renewer.Silent}) // Margin 4 s
		require.NoError(t, err)
		l := acquire(t, k, "a")
		begun := time.Now()
		told := make(chan time.Time, 1)
		context.AfterFunc(l.Context(), func() { told <- time.Now() })
		err = k.Shutdown(within(t, 30*time.Second))
		require.ErrorContains(t, err, "1 operations still ran")
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 25*time.Second, (<-told).Sub(begun))
		require.Equal(t, 29*time.Second, s.Calls(script.Release)[0].At.Sub(begun))
	})
}

// With nothing to do, a context that has ended is no failure.
func TestShutdownOfAnIdleKeeperWithoutTime(t *testing.T) {
	t.Parallel()
	for range 20 {
		shut(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
			require.NoError(t, acquire(t, k, "a").Release(t.Context()))
			require.NoError(t, k.Shutdown(ended()))
			require.NoError(t, k.Shutdown(t.Context()))
		})
	}
}

// What the store was asked when Shutdown ran out of time may have left
// a key: Shutdown does not say that all are free, and tries to free it.
func TestShutdownDoesNotForgetWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(ctx context.Context, s *script.Store,
		k *renewer.Keeper) error{
		"a release": func(ctx context.Context, s *script.Store, k *renewer.Keeper) error {
			l, err := k.Acquire(ctx, renewer.Request{Name: "a"})
			if err != nil {
				return err
			}
			s.Script(script.Release, script.Hang())
			return l.Release(ctx)
		},
		"an acquire": func(ctx context.Context, s *script.Store, k *renewer.Keeper) error {
			s.Script(script.Acquire, script.Pass().Lost())
			_, err := k.Acquire(ctx, renewer.Request{Name: "a"})
			return err
		},
	} {
		for _, down := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", the store is down: ", down), func(t *testing.T) {
				t.Parallel()
				shut(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
					asked := background(func() error { return ask(context.Background(), s, k) })
					synctest.Wait()
					require.NotEmpty(t, s.Owner("a"))
					if down {
						s.Default(script.Release, script.Fail(errDown))
					}
					err := k.Shutdown(within(t, 1800*time.Millisecond))
					require.Error(t, <-asked)
					if !down {
						require.NoError(t, err)
						require.Empty(t, s.Owner("a"), "freed after all")
						return
					}
					require.ErrorIs(t, err, renewer.ErrUnavailable)
					require.ErrorContains(t, err, "1 keys could not be freed")
				})
			})
		}
	}
}

// What Shutdown does behind its caller's back comes to an end soon,
// however long a request may take.
func TestShutdownIsSoonOver(t *testing.T) {
	t.Parallel()
	for _, given := range []time.Duration{0, time.Second, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := script.New()
			k, err := renewer.New(s,
				renewer.Config{TTL: time.Hour, Margin: 3 * time.Second, Log: renewer.Silent})
			require.NoError(t, err)
			l := acquire(t, k, "a")
			s.Default(script.Release, script.Hang())
			require.Error(t, k.Shutdown(within(t, given)))
			begun := time.Now()
			require.Error(t, k.Shutdown(t.Context()))
			require.LessOrEqual(t, time.Since(begun), 5*time.Second)
			s.Default(script.Release, script.Pass())
			require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
			require.Empty(t, s.Owner("a"))
		})
	}
}

// Also of a store that does not return when its context ends.
func TestShutdownSaysWhatIsStillUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, answer := &hooked{Store: script.New()}, make(chan struct{})
		s.release = func(ctx context.Context, holds []store.Hold) []store.Answer {
			<-answer
			return s.Store.Release(ctx, holds)
		}
		k, err := renewer.New(s, config)
		require.NoError(t, err)
		l := acquire(t, k, "a")
		released := background(func() error { return l.Release(context.Background()) })
		synctest.Wait()
		err = k.Shutdown(within(t, 10*time.Second))
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		require.ErrorContains(t, err, "1 of its answers are still awaited")
		close(answer)
		require.ErrorIs(t, <-released, renewer.ErrUnavailable)
		require.Empty(t, s.Owner("a"), "freed by one more request of the caller's own")
	})
}

// ended is a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// A question that the store never answers does not outlast the
// keeper, whose loops would have ended it.
func TestShutdownEndsQuestionsUnderWay(t *testing.T) {
	t.Parallel()
	shut(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Default(script.Acquire, script.Hang())
		asking := waits(t.Context(), k)
		begun := time.Now()
		require.NoError(t, k.Shutdown(within(t, time.Second)), "nothing was held")
		require.ErrorIs(t, <-asking, renewer.ErrShutdown)
		require.LessOrEqual(t, time.Since(begun), time.Second)
	})
}
