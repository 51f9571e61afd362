package once_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/records"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// recorders are where a record may be, for a keeper of the lock.
func recorders() map[string]func(*renewer.Keeper) once.Recorder {
	return map[string]func(*renewer.Keeper) once.Recorder{
		"beside the lock": func(k *renewer.Keeper) once.Recorder { return records.Of(k) },
		"written later":   func(k *renewer.Keeper) once.Recorder { return plain{records.Of(k)} },
		"in a database":   func(k *renewer.Keeper) once.Recorder { return &ledger{Records: records.Of(k)} },
	}
}

// Pauses double from the first up to the most, and no further than to a third
// of Keep.
func TestPausesDouble(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		opts []once.Option
		want []int // seconds
	}{
		"default": {nil, []int{1, 2, 4, 8, 16, 32, 60, 60}},
		"bounded": {[]once.Option{
			once.Retry(2*time.Second, 5*time.Second),
		}, []int{2, 4, 5, 5, 5}},
		"the same each time": {[]once.Option{
			once.Retry(2*time.Minute, 2*time.Minute),
		}, []int{120, 120, 120}},
		"by Keep": {[]once.Option{once.Keep(30 * time.Second)}, []int{1, 2, 4, 8, 10, 10}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
				last := time.Now()
				var pauses []time.Duration
				_, err := once.Do(t.Context(), k, "a", func(context.Context) (report, error) {
					pauses = append(pauses, time.Since(last))
					last = time.Now()
					return report{}, errOperation
				}, append(row.opts, once.MaxAttempts(int64(len(row.want))+1))...)
				require.ErrorIs(t, err, once.ErrAttemptsExhausted)
				for i, seconds := range row.want {
					about := time.Duration(seconds) * time.Second
					require.InDelta(t, about, pauses[i+1], float64(about/2)+1e6, "%v", pauses)
				}
			})
		})
	}
}

// A call that may not wait until then hears how long it would be, and of its
// own error.
func TestNotYet(t *testing.T) {
	t.Parallel()
	for where, in := range recorders() {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				recorder, patient := once.RecordIn(in(k)), once.Retry(time.Minute, time.Minute)
				_, err := once.Do(t.Context(), k, "a", fail, recorder, patient, once.NoRetry())
				require.Equal(t, errOperation, err)
				for _, wait := range []time.Duration{0, 20 * time.Second} {
					begun := time.Now()
					_, err = once.Do(t.Context(), k, "a", never(t), recorder, waiting(wait))
					require.ErrorIs(t, err, once.ErrNotYet)
					require.NotErrorIs(t, err, renewer.ErrBusy)
					require.Zero(t, time.Since(begun))
					var e *once.Error
					require.ErrorAs(t, err, &e)
					require.InDelta(t, time.Minute, e.RetryAfter, float64(30*time.Second))
					require.Equal(t, 1, e.Attempts)
					require.Regexp(t, `^lockbeat: once "a": the next attempt may not begin yet, but `+
						`in .*s; attempts: 1, the last by here pid \d+$`, err.Error())
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err = once.Do(ctx, k, "a", never(t), recorder)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, once.ErrNotYet, "why")
				free(t, k, "a")
				got, err := once.Do(t.Context(), k, "a", answer(report{Pages: 2}), recorder)
				require.NoError(t, err)
				require.Equal(t, report{Pages: 2}, got)
			})
		})
	}
}

// A call that does not wait for others pauses after its own failure all the
// same, by its own clock.
func TestACallThatDoesNotWaitTriesAgain(t *testing.T) {
	t.Parallel()
	for where, in := range recorders() {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
				_, err := once.Do(t.Context(), k, "a", fail, once.RecordIn(in(k)), lockmw.Refuse())
				require.ErrorIs(t, err, once.ErrAttemptsExhausted)
			})
		})
	}
}

// An attempt that was cut makes no one wait: its lock was lost, its caller has
// left, or its process has died.
func TestNoPauseAfterACut(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(s *script.Store, cancel func()){
		"its lock was lost":   func(s *script.Store, _ func()) { s.Delete("a") },
		"its caller has left": func(_ *script.Store, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				begun := time.Now()
				go func() {
					_, _ = once.Do(ctx, k, "a", func(ctx context.Context) (report, error) {
						cut(s, cancel)
						<-ctx.Done()
						return report{}, context.Cause(ctx)
					}, once.NoRetry())
				}()
				synctest.Wait()
				other := keeper(t, s, "there")
				_, err := once.Do(t.Context(), other, "a", func(context.Context) (report, error) {
					assert.LessOrEqual(t, time.Since(begun), renewer.DefaultTTL)
					return report{}, nil
				}, lockmw.Wait(renewer.DefaultTTL))
				require.NoError(t, err)
				require.NotContains(t, s.RecordOf("a"), "pause=")
			})
		})
	}
}

// A failure that can't be put on record makes its own caller pause, and no
// other one.
func TestAPauseThatCantBePutOnRecord(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Write, script.Fail(errDown))
		_, err := once.Do(t.Context(), k, "a", fail, once.NoRetry())
		require.Equal(t, errOperation, err)
		_, err = once.Do(t.Context(), k, "a", answer(report{}), lockmw.Refuse())
		require.NoError(t, err)
	})
}

// Errors of functions stay in their process, unless the caller wants them told.
func TestTellErrors(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		opts := []once.Option{
			once.NoRetry(), once.MaxAttempts(2), once.Retry(time.Millisecond, time.Minute),
		}
		for _, opts := range [][]once.Option{opts, append(opts, once.TellErrors())} {
			told := len(opts) == 4
			name := map[bool]string{false: "kept", true: "told"}[told]
			for range 2 {
				_, err := once.Do(t.Context(), k, name, fail, opts...)
				require.ErrorIs(t, err, errOperation)
				if told {
					require.Contains(t, s.RecordOf(name), errOperation.Error())
				} else {
					require.NotContains(t, s.RecordOf(name), errOperation.Error())
				}
			}
			_, err := once.Do(t.Context(), keeper(t, s, "there"), name, never(t), opts...)
			require.ErrorIs(t, err, once.ErrAttemptsExhausted)
			require.Equal(t, told, strings.Contains(err.Error(), errOperation.Error()))
		}
		_, err := once.Do(t.Context(), k, "up", func(context.Context) (report, error) {
			return report{}, once.Permanent(errors.New("a\nb" + strings.Repeat("x", 1000)))
		}, once.TellErrors())
		require.ErrorIs(t, err, once.ErrGivenUp)
		_, err = once.Do(t.Context(), k, "up", never(t))
		require.ErrorContains(t, err, ": ab"+strings.Repeat("x", 298))
		require.NotContains(t, err.Error(), strings.Repeat("x", 299))
	})
}
