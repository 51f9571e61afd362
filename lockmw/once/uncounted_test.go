package once_test

import (
	"context"
	"math"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

var uncounted = once.MaxAttempts(lockmw.NoBound)

// Names that clients choose would fill the store with failures, each of which
// stayed for Keep.
func TestUncountedFailuresLeaveNothing(t *testing.T) {
	t.Parallel()
	for name, fn := range map[string]func(context.Context) (report, error){
		"an error": fail,
		"a panic":  func(context.Context) (report, error) { panic("boom") },
		"an exit": func(context.Context) (report, error) {
			runtime.Goexit()
			return report{}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				for range 5 {
					var wg sync.WaitGroup
					wg.Go(func() {
						defer func() { _ = recover() }()
						_, err := once.Do(t.Context(), k, "a",
							func(ctx context.Context) (report, error) {
								assert.Equal(t, once.Attempt{Number: 1, Max: math.MaxInt32},
									once.Current(ctx))
								return fn(ctx)
							}, once.NoRetry(), uncounted)
						assert.ErrorIs(t, err, errOperation)
					})
					wg.Wait()
					assert.Empty(t, s.RecordOf("a"))
				}
				got, err := once.Do(t.Context(), k, "a", answer(report{Pages: 3}), uncounted,
					once.Input("another"))
				require.NoError(t, err, "the name is as new")
				require.Equal(t, report{Pages: 3}, got)
				require.NotEmpty(t, s.RecordOf("a"))
			})
		})
	}
}

// What has been decided stays.
func TestUncountedDecisionsStay(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		_, err := once.Do(t.Context(), k, "a", func(context.Context) (report, error) {
			return report{}, once.Permanent(errOperation)
		}, uncounted)
		require.ErrorIs(t, err, once.ErrGivenUp)
		_, err = once.Do(t.Context(), k, "a", never(t), uncounted)
		require.ErrorIs(t, err, once.ErrGivenUp)
	})
}

// The lock was lost, another call took over, failed and erased the record; then
// the first succeeds. Its result is recorded, since no caller has a better one.
func TestASuccessAfterATakeoverThatWasErasedIsRecorded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		options := []once.Option{once.NoRetry(), uncounted}
		other := keeper(t, s, "there")
		runs := 0
		got, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (report, error) {
			runs++
			if runs == 1 {
				s.Delete("a")
				<-ctx.Done()
				_, err := once.Do(t.Context(), other, "a", fail, options...)
				assert.ErrorIs(t, err, errOperation)
				assert.Empty(t, s.RecordOf("a"))
			}
			return report{Pages: 7}, nil
		}, options...)
		require.NoError(t, err)
		require.Equal(t, report{Pages: 7}, got)
		got, err = once.Do(t.Context(), other, "a", never(t), options...)
		require.NoError(t, err)
		require.Equal(t, report{Pages: 7}, got)
	})
}

func TestOfMaxAttemptsAndUncountedTheLaterCounts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		_, err := once.Do(t.Context(), k, "a", fail, uncounted, once.MaxAttempts(1))
		require.ErrorIs(t, err, once.ErrAttemptsExhausted)
		_, err = once.Do(t.Context(), k, "b", fail, once.NoRetry(), once.MaxAttempts(1),
			uncounted)
		require.NotErrorIs(t, err, once.ErrAttemptsExhausted)
		assert.Empty(t, s.RecordOf("b"))
	})
}

// An erasure that fails is no trouble of the caller's.
func TestAnErasureThatFails(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Write, script.Fail(errDown))
		_, err := once.Do(t.Context(), k, "a", fail, once.NoRetry(), uncounted)
		require.ErrorIs(t, err, errOperation)
		require.NotErrorIs(t, err, errDown)
		_, err = once.Do(t.Context(), k, "a", answer(report{}), once.NoRetry(), uncounted)
		require.NoError(t, err)
	})
}
