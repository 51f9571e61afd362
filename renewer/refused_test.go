package renewer_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// outages are the ways in which a store is away.
var outages = map[string]script.Step{"refused": script.Fail(errDown), "hangs": script.Hang()}

// crowd is callers with 10 s of time who want one name, or each one of its own.
// It returns how many were granted one, and how many refused, as it goes on.
func crowd(t *testing.T, k *renewer.Keeper, callers int) (granted, refused *atomic.Int32) {
	t.Helper()
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	granted, refused = new(atomic.Int32), new(atomic.Int32)
	for i := range callers {
		ctx, name := t.Context(), "0:one"
		if i%2 == 0 {
			name = fmt.Sprintf("0:%d", i)
		}
		if i%3 == 0 {
			ctx = context.Background() // as far as the engine can tell, it never ends
		}
		wg.Go(func() {
			l, err := k.Acquire(ctx, renewer.Request{Name: name, MaxWait: 10 * time.Second})
			if err == nil {
				granted.Add(1)
				assert.NoError(t, l.Release(context.Background()))
				return
			}
			refused.Add(1)
			assert.ErrorIs(t, err, renewer.ErrUnavailable)
			assert.NotErrorIs(t, err, renewer.ErrBusy)
			assert.ErrorContains(t, err, "no answer since 00:00:0")
		})
	}
	return granted, refused
}

// Who waits when an outage has lasted for longer than a fail-over takes is
// refused at that instant, and who comes later at once, without a question;
// until the store answers.
func TestCallersAreRefusedOnceAFailOverWouldBeOver(t *testing.T) {
	t.Parallel()
	for name, step := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k, store := outageOf(t)
				failOver := k.Config().FailOver
				require.Equal(t, 5*time.Second, failOver)
				require.NoError(t, try(t, k, "0:a"))
				store.Default(script.Acquire, step)
				granted, refused := crowd(t, k, 1000)
				waitFor(2 * time.Second)
				_, late := crowd(t, k, 100)
				waitFor(failOver - 2*time.Second - 100*time.Millisecond)
				require.Zero(t, refused.Load()+late.Load())
				require.NoError(t, k.HealthCheck())
				require.Zero(t, k.Outage("0:a"))

				waitFor(100 * time.Millisecond)
				synctest.Wait()
				require.EqualValues(t, 1000, refused.Load())
				require.EqualValues(t, 100, late.Load())
				require.ErrorIs(t, k.HealthCheck(), renewer.ErrUnavailable)
				require.ErrorContains(t, k.HealthCheck(), "no answer since 00:00:00 UTC, for 5s: ")
				require.Equal(t, failOver, k.Outage("0:a"))

				asked := len(store.Calls(script.Acquire))
				_, refused = crowd(t, k, 1000)
				assert.ErrorIs(t, try(t, k, "0:b"), renewer.ErrUnavailable)
				synctest.Wait()
				require.EqualValues(t, 1000, refused.Load())
				require.Len(t, store.Calls(script.Acquire), asked)
				for range 60 {
					waitFor(time.Second)
					_, refused := crowd(t, k, 3)
					synctest.Wait()
					require.EqualValues(t, 3, refused.Load())
				}
				assert.Less(t, len(store.Calls(script.Acquire)), asked+2*61, "probes alone")

				store.Default(script.Acquire, script.Pass())
				waitFor(renewer.ProbePause + k.Config().RequestTimeout) // one may hang
				require.NoError(t, k.HealthCheck())
				require.Zero(t, k.Outage("0:a"))
				after, _ := crowd(t, k, 1000)
				waitFor(time.Second)
				require.EqualValues(t, 1000, after.Load())
				require.Zero(t, granted.Load())
			})
		})
	}
}

// No caller is refused in a fail-over who would have been granted the lock.
func TestCallersWaitThroughAFailOver(t *testing.T) {
	t.Parallel()
	for name, step := range outages {
		lasts := map[string]time.Duration{"refused": 4900 * time.Millisecond, "hangs": 4400 * time.Millisecond}
		for _, lasts := range []time.Duration{3 * time.Second, lasts[name]} {
			t.Run(fmt.Sprint(name, lasts), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					k, store := outageOf(t)
					require.NoError(t, try(t, k, "0:a"))
					store.Default(script.Acquire, step)
					granted, refused := crowd(t, k, 300)
					waitFor(lasts)
					store.Default(script.Acquire, script.Pass())
					waitFor(10*time.Second - lasts)
					require.EqualValues(t, 300, granted.Load())
					require.Zero(t, refused.Load())
					require.NoError(t, k.HealthCheck())
				})
			})
		}
	}
}

// A single question that is not answered, on a connection that is dead, is no
// outage, however long that took to be known.
func TestOneQuestionThatHangsIsNoOutage(t *testing.T) {
	t.Parallel()
	inBubble(t, renewer.Config{TTL: time.Minute}, func(
		t *testing.T, s *script.Store, k *renewer.Keeper,
	) {
		require.Greater(t, k.Config().RequestTimeout, k.Config().FailOver)
		s.Script(script.Acquire, script.Hang())
		l := acquire(t, k, "a", renewer.Request{MaxWait: time.Minute})
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, k.HealthCheck())
	})
}

// A leader's stand-by waits for the store, however long that is away, and a
// caller behind it does not.
func TestStandBysOutlastAnOutage(t *testing.T) {
	t.Parallel()
	for name, step := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				s.Default(script.Acquire, step)
				led := make([]<-chan error, 2)
				for i := range led {
					led[i] = waits(t.Context(), k, renewer.Request{LongRunning: true})
				}
				synctest.Wait()
				begun := time.Now()
				_, err := k.Acquire(t.Context(), renewer.Request{Name: "a"})
				require.ErrorIs(t, err, renewer.ErrUnavailable)
				require.Equal(t, k.Config().FailOver, time.Since(begun))
				waitFor(10 * time.Minute)
				_, err = k.Acquire(t.Context(), renewer.Request{
					Name: "a", LongRunning: true, Try: true,
				})
				require.ErrorIs(t, err, renewer.ErrUnavailable, "it does not wait")
				s.Default(script.Acquire, script.Pass())
				for _, l := range led {
					require.NoError(t, <-l)
				}
			})
		})
	}
}

// A shard that is away costs callers of another nothing, and when the store has
// it no more, that is no outage.
func TestAnOutageIsAShards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, store := outageOf(t)
		store.Script(script.Acquire, script.Fail(errDown))
		require.Error(t, try(t, k, "0:a"))
		store.Default(script.Acquire, script.Fail(errDown))
		waitFor(k.Config().FailOver)
		synctest.Wait()
		require.Positive(t, k.Outage("0:a"))
		store.Default(script.Acquire, script.Pass())
		require.NoError(t, try(t, k, "1:a"))
		require.ErrorIs(t, try(t, k, "0:a"), renewer.ErrUnavailable)
		require.ErrorIs(t, k.HealthCheck(), renewer.ErrUnavailable)
		waitFor(renewer.ProbePause)
		synctest.Wait()
		require.NoError(t, try(t, k, "0:a"))

		store.Default(script.Acquire, script.Fail(errDown))
		require.Error(t, try(t, k, "0:a"))
		waitFor(2 * k.Config().FailOver)
		require.ErrorIs(t, k.HealthCheck(), renewer.ErrUnavailable)
		store.move(1)
		waitFor(renewer.ProbePause)
		synctest.Wait()
		require.NoError(t, k.HealthCheck())
	})
}

// A process that asks for nothing more hears that the store is away, and that
// it is back.
func TestHealthCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, store := outageOf(t)
		failOver := k.Config().FailOver
		require.NoError(t, k.HealthCheck(), "nobody has asked")
		store.Script(script.Acquire, script.Fail(errDown))
		require.Error(t, try(t, k, "1:a"))
		waitFor(2 * failOver)
		require.NoError(t, k.HealthCheck())
		require.Len(t, store.Calls(script.Acquire), 2, "the engine has asked once")

		store.Default(script.Acquire, script.Fail(errDown))
		require.Error(t, try(t, k, "1:a"))
		waitFor(failOver - time.Millisecond)
		require.NoError(t, k.HealthCheck(), "it may be a fail-over")
		waitFor(time.Millisecond)
		synctest.Wait()
		for range 10 {
			require.ErrorIs(t, k.HealthCheck(), renewer.ErrUnavailable)
			waitFor(time.Minute)
		}
		store.Default(script.Acquire, script.Pass())
		waitFor(renewer.ProbePause)
		synctest.Wait()
		require.NoError(t, k.HealthCheck())
		require.NoError(t, k.Shutdown(t.Context()))
		require.ErrorIs(t, k.HealthCheck(), renewer.ErrShutdown)
	})
}
