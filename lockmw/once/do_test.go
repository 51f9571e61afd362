package once_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

var errOperation = errors.New("the operation failed")

// report is a result.
type report struct {
	Pages int
	By    string
}

// never is a function that must not run.
func never(t *testing.T) func(context.Context) (report, error) {
	return func(context.Context) (report, error) {
		assert.Fail(t, "the function ran")
		return report{}, nil
	}
}

func answer(r report) func(context.Context) (report, error) {
	return func(context.Context) (report, error) { return r, nil }
}

func fail(context.Context) (report, error) { return report{Pages: 1}, errOperation }

// free fails the test unless name is free.
func free(t *testing.T, k *renewer.Keeper, name string) {
	t.Helper()
	l, err := k.Acquire(t.Context(), renewer.Request{Name: name, Try: true})
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))
}

func TestTheResultIsEverybodys(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		want := report{7, "here"}
		got, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (report, error) {
			assert.True(t, lockmw.Held(ctx, "a"))
			assert.Equal(t, once.Attempt{Number: 1, Max: 3}, once.Current(ctx))
			return want, nil
		}, lockmw.Operation("reporting"))
		require.NoError(t, err)
		require.Equal(t, want, got)
		assert.Equal(t, "reporting", s.Calls(script.Acquire)[0].Claims[0].Holder.Operation)
		free(t, k, "a")

		asked := len(s.Calls(script.Acquire))
		other := keeper(t, s, "there")
		got, err = once.Do(t.Context(), other, "a", never(t))
		require.NoError(t, err)
		require.Equal(t, want, got)
		assert.Len(t, s.Calls(script.Acquire), asked, "it wanted no lock")
		assert.Zero(t, once.Current(t.Context()))
	})
}

// Those who wait are woken by the release, and get the result at that very
// instant.
func TestWaitersGetTheResultAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		other := keeper(t, s, "there")
		begun := time.Now()
		type got struct {
			report
			err error
			at  time.Duration
		}
		all := make(chan got, 6)
		go func() {
			r, err := once.Do(t.Context(), k, "a", func(context.Context) (report, error) {
				elapse(time.Hour)
				return report{7, "here"}, nil
			})
			all <- got{r, err, time.Since(begun)}
		}()
		synctest.Wait()
		for i := range 5 {
			waiter := []*renewer.Keeper{k, other}[i%2]
			go func() {
				r, err := once.Do(t.Context(), waiter, "a", never(t))
				all <- got{r, err, time.Since(begun)}
			}()
		}
		for range 6 {
			require.Equal(t, got{report{7, "here"}, nil, time.Hour}, <-all)
		}
		free(t, k, "a")
	})
}

func TestAnotherAttemptFollowsOneThatFails(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		begun := time.Now()
		work := func(ctx context.Context) (report, error) {
			a := once.Current(ctx)
			if a.Number == 1 {
				elapse(time.Minute)
				return report{}, errOperation
			}
			assert.InDelta(t, time.Minute+time.Second, time.Since(begun),
				float64(time.Second/2+time.Millisecond), "after a pause")
			assert.Equal(t, 2, a.Number)
			assert.Equal(t, "here", a.Previous.Node)
			assert.Positive(t, a.Previous.PID)
			elapse(time.Hour)
			return report{Pages: 2}, nil
		}
		first := make(chan error, 1)
		go func() {
			r, err := once.Do(t.Context(), k, "a", work)
			assert.Equal(t, report{Pages: 2}, r, "also who has failed gets it")
			first <- err
		}()
		synctest.Wait()
		got, err := once.Do(t.Context(), keeper(t, s, "there"), "a", work)
		require.NoError(t, err)
		assert.Equal(t, report{Pages: 2}, got)
		require.NoError(t, <-first)
	})
}

func TestExhausted(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		var numbers []int
		begun := time.Now()
		got, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (report, error) {
			a := once.Current(ctx)
			numbers = append(numbers, a.Number)
			return report{Pages: a.Number}, errOperation
		}, once.MaxAttempts(4), once.Retry(10*time.Second, time.Minute), once.Keep(time.Hour))
		require.ErrorIs(t, err, once.ErrAttemptsExhausted)
		require.ErrorIs(t, err, errOperation, "its own")
		assert.Equal(t, []int{1, 2, 3, 4}, numbers)
		assert.Equal(t, report{Pages: 4}, got, "what the last attempt returned beside its error")
		assert.GreaterOrEqual(t, time.Since(begun), 35*time.Second, "pauses of 10, 20 and 40 s")
		assert.Less(t, time.Since(begun), 105*time.Second)

		other := keeper(t, s, "there")
		_, err = once.Do(t.Context(), other, "a", never(t), once.MaxAttempts(10),
			once.Keep(time.Hour))
		require.ErrorIs(t, err, once.ErrAttemptsExhausted, "said is said")
		require.NotErrorIs(t, err, errOperation)
		assert.NotContains(t, s.RecordOf("a"), errOperation.Error(), "which stays where it was")
		var e *once.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, 4, e.Attempts)
		assert.Equal(t, "here", e.Last.Node)
		assert.Regexp(
			t, `^lockbeat: once "a": all attempts have failed; attempts: 4, the last by here pid `+
				`\d+$`, err.Error(),
		)

		elapse(time.Hour)
		_, err = once.Do(t.Context(), other, "a", answer(report{}), once.Keep(time.Hour))
		require.NoError(t, err, "the next run is not blocked")
	})
}

func TestPermanentErrorsEndIt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		ran := 0
		_, err := once.Do(t.Context(), k, "a", func(context.Context) (report, error) {
			ran++
			return report{}, once.Permanent(errOperation)
		})
		require.ErrorIs(t, err, once.ErrGivenUp)
		require.ErrorIs(t, err, errOperation)
		assert.Equal(t, 1, ran)
		_, err = once.Do(t.Context(), k, "a", never(t))
		require.ErrorIs(t, err, once.ErrGivenUp)
		require.NotErrorIs(t, err, errOperation)
		require.NoError(t, once.Permanent(nil))
		assert.Equal(t, errOperation.Error(), once.Permanent(errOperation).Error())
	})
}

func TestNoRetry(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		for n := range 3 {
			got, err := once.Do(t.Context(), k, "a", fail, once.NoRetry(), once.MaxAttempts(4))
			require.Equal(t, errOperation, err, "as it is")
			require.Equal(t, report{Pages: 1}, got)
			require.Contains(t, s.RecordOf("a"), "once1 begun "+string(rune('1'+n)))
		}
		_, err := once.Do(t.Context(), k, "a", fail, once.NoRetry(), once.MaxAttempts(4))
		require.ErrorIs(t, err, once.ErrAttemptsExhausted)
		require.ErrorIs(t, err, errOperation)
		_, err = once.Do(t.Context(), k, "a", never(t), once.NoRetry(), once.MaxAttempts(4))
		require.ErrorIs(t, err, once.ErrAttemptsExhausted)
		free(t, k, "a")
	})
}

// waiting is lockmw.Wait, and lockmw.Refuse for 0.
func waiting(d time.Duration) once.Option {
	if d == 0 {
		return lockmw.Refuse()
	}
	return lockmw.Wait(d)
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l, err := k.Acquire(t.Context(), renewer.Request{Name: "a"})
		require.NoError(t, err)
		for _, wait := range []time.Duration{0, time.Minute} {
			begun := time.Now()
			_, err = once.Do(t.Context(), k, "a", never(t), waiting(wait))
			require.ErrorIs(t, err, renewer.ErrBusy)
			require.Equal(t, wait, time.Since(begun))
		}
		go func() {
			_, _ = once.Do(t.Context(), k, "a", answer(report{}), lockmw.Wait(time.Second))
		}()
		synctest.Wait()
		_, err = once.Do(t.Context(), k, "a", never(t), lockmw.MaxWaiters(1))
		require.ErrorIs(t, err, renewer.ErrQueueFull)

		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		begun := time.Now()
		_, err = once.Do(ctx, k, "a", never(t))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 3*time.Hour, time.Since(begun), "for as long as the context lives")
		require.NoError(t, l.Release(t.Context()))
	})
}

// A bounded call that has failed itself and then waits for another in vain says
// both.
func TestOwnFailureIsToldWithWhatCameAfter(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		rival := make(chan *renewer.Lease, 1)
		first := make(chan error, 1)
		begun := time.Now()
		go func() {
			_, err := once.Do(t.Context(), k, "a", func(context.Context) (report, error) {
				go func() {
					l, err := k.Acquire(t.Context(), renewer.Request{Name: "a"})
					assert.NoError(t, err)
					rival <- l
				}()
				elapse(time.Minute)
				return report{}, errOperation
			}, lockmw.Wait(20*time.Second), once.Retry(2*time.Second, time.Minute))
			first <- err
		}()
		err := <-first
		require.ErrorIs(t, err, renewer.ErrBusy)
		require.ErrorIs(t, err, errOperation)
		require.Equal(t, 80*time.Second, time.Since(begun),
			"the wait counts from the attempt's end")
		require.NoError(t, (<-rival).Release(t.Context()))

		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err = once.Do(ctx, k, "b", fail, once.Retry(time.Hour, time.Hour))
		require.ErrorIs(t, err, context.DeadlineExceeded, "in its pause")
		require.ErrorIs(t, err, errOperation)
	})
}

// A refusal is the caller's error as it is: not wrapped when no attempt was
// made, not told twice when the attempt ended the same way.
func TestARefusalIsToldOnceAndAsItIs(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l, err := k.Acquire(t.Context(), renewer.Request{Name: "a"})
		require.NoError(t, err)
		_, err = once.Do(t.Context(), k, "a", never(t), lockmw.Refuse())
		_, bare := err.(*renewer.Error) //nolint:errorlint // not whether it wraps one
		assert.True(t, bare, "%T", err)
		require.NoError(t, l.Release(t.Context()))

		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		ownTimeout := func(context.Context) (report, error) {
			return report{}, context.DeadlineExceeded
		}
		_, err = once.Do(ctx, k, "b", ownTimeout, once.Retry(time.Hour, time.Hour))
		require.Equal(t, context.DeadlineExceeded, err)
	})
}

func TestCancelledCallersAttemptEndsTheCall(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := once.Do(ctx, k, "a", func(ctx context.Context) (report, error) {
			cancel()
			<-ctx.Done()
			return report{}, context.Cause(ctx)
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Contains(t, s.RecordOf("a"), "once1 begun 1 ")
		_, err = once.Do(ctx, k, "a", never(t))
		require.ErrorIs(t, err, context.Canceled)

		ctx, cancel = context.WithCancel(t.Context())
		got, err := once.Do(ctx, k, "a", func(ctx context.Context) (report, error) {
			cancel()
			return report{Pages: 3}, nil
		})
		require.NoError(t, err, "a finished result stands")
		require.Equal(t, 3, got.Pages)
		got, err = once.Do(t.Context(), k, "a", never(t))
		require.NoError(t, err)
		require.Equal(t, 3, got.Pages, "and is on record, though its caller had gone")
	})
}

func TestPanicsPassThroughAndCount(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		require.PanicsWithValue(t, "oh", func() {
			_, _ = once.Do(t.Context(), k, "a", func(context.Context) (report, error) {
				panic("oh")
			}, once.MaxAttempts(2))
		})
		free(t, k, "a")
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = once.Do(t.Context(), k, "a", func(context.Context) (report, error) {
				runtime.Goexit()
				return report{}, nil
			}, once.MaxAttempts(2))
		}()
		<-done
		free(t, k, "a")
		_, err := once.Do(t.Context(), k, "a", never(t), once.MaxAttempts(2))
		require.ErrorIs(t, err, once.ErrAttemptsExhausted, "the one who finds out says so")
		require.Contains(t, s.RecordOf("a"), "once1 exhausted 2 ")
	})
}

// A record that has changed between the look without the lock and the lock is
// not written over: the attempt is the one after it.
func TestRecordChangesBeforeTheLock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Acquire(t.Context(), []store.Claim{{Name: "a", Owner: owner(1), TTL: time.Second}})
		go func() {
			elapse(time.Millisecond) // the call waits for the lock
			s.PutRecord("a", "once1 begun 1 4711\nthere\n\n")
		}()
		got, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (report, error) {
			require.Equal(t, store.Holder{Node: "there", PID: 4711}, once.Current(ctx).Previous)
			return report{Pages: once.Current(ctx).Number}, nil
		})
		require.NoError(t, err)
		require.Equal(t, report{Pages: 2}, got)
	})
}

// An inner work that was given up says nothing of the outer one, whichever call
// ran the attempt that gave it up. Only an error that the outer function marks
// itself gives up the outer work.
func TestInnerWorkThatIsGivenUpDoesNotGiveUpTheOuter(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		inner := func(ctx context.Context) (report, error) {
			return once.Do(ctx, k, "inner", func(context.Context) (report, error) {
				return report{}, once.Permanent(errOperation)
			})
		}
		for _, outer := range []string{"ran the attempt", "came later"} {
			runs := 0
			_, err := once.Do(t.Context(), k, outer, func(ctx context.Context) (report, error) {
				runs++
				r, err := inner(ctx)
				return r, fmt.Errorf("inner: %w", errors.Join(errDown, err))
			})
			e, ok := errors.AsType[*once.Error](err)
			require.True(t, ok)
			require.Equal(t, once.ErrAttemptsExhausted, e.Kind, outer)
			require.Equal(t, once.DefaultMaxAttempts, runs)
		}
		_, err := once.Do(t.Context(), k, "marked", func(ctx context.Context) (report, error) {
			r, err := inner(ctx)
			return r, fmt.Errorf("marked: %w", once.Permanent(err))
		})
		e, ok := errors.AsType[*once.Error](err)
		require.True(t, ok)
		require.Equal(t, once.ErrGivenUp, e.Kind)
		require.Equal(t, 1, e.Attempts)
	})
}

// An error of this call's own attempt is not told as that of the last, if
// another one made that.
func TestWhoseErrorItIs(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		time.AfterFunc(100*time.Millisecond, func() {
			s.PutRecord("a", "once1 exhausted 3 4711\nthere\n\n")
		})
		_, err := once.Do(t.Context(), k, "a", func(context.Context) (report, error) {
			return report{}, errDown
		})
		require.ErrorIs(t, err, once.ErrAttemptsExhausted)
		require.ErrorIs(t, err, errDown)
		require.Equal(t, `lockbeat: once "a": all attempts have failed; attempts: 3, the last by `+
			"there pid 4711: this call's own attempt, number 1: "+errDown.Error(), err.Error())
	})
}
