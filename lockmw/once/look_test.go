package once_test

import (
	"context"
	"strings"
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

// look is what is on record of name; the holder's process is left out.
func look(
	t *testing.T, k *renewer.Keeper, name string, opts ...once.Option,
) once.Info {
	t.Helper()
	info, err := once.Look(t.Context(), k, name, opts...)
	require.NoError(t, err)
	info.Last.PID = 0
	return info
}

// All that is on record can be looked at, at any time, without the lock.
func TestLook(t *testing.T) {
	t.Parallel()
	for where, in := range recorders() {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
				r := in(k)
				opts := []once.Option{
					once.RecordIn(r), once.MaxAttempts(2), once.Keep(time.Hour), once.NoRetry(),
					once.Input("sha"), once.TellErrors(),
				}
				require.Equal(t, once.Info{}, look(t, k, "a", once.RecordIn(r)))
				begun := time.Now()
				want := once.Info{
					Attempts: 1, Last: store.Holder{Node: "here"},
					Input: "sha", Written: begun, Until: begun.Add(time.Hour),
				}
				failing := func(ctx context.Context) (report, error) {
					assert.Equal(t, want, look(t, k, "a", once.RecordIn(r)))
					elapse(time.Minute)
					return report{}, errOperation
				}
				_, err := once.Do(t.Context(), k, "a", failing, opts...)
				require.ErrorIs(t, err, errOperation)
				info := look(t, k, "a", once.RecordIn(r))
				require.InDelta(t, time.Second, time.Until(info.NotBefore), float64(time.Second/2))
				want.Written, want.Until = time.Now(), time.Now().Add(time.Hour)
				want.NotBefore, want.Why = info.NotBefore, errOperation.Error()
				require.Equal(t, want, info)

				elapse(2 * time.Second)
				want = once.Info{
					Attempts: 2, Last: store.Holder{Node: "here"},
					Input: "sha", Written: time.Now(), Until: time.Now().Add(time.Hour),
				}
				_, err = once.Do(t.Context(), k, "a", failing, opts...)
				require.ErrorIs(t, err, once.ErrAttemptsExhausted)
				want.Err, want.Why = once.ErrAttemptsExhausted, errOperation.Error()
				want.Written, want.Until = time.Now(), time.Now().Add(time.Hour)
				require.Equal(t, want, look(t, k, "a", once.RecordIn(r)))

				_, err = once.Do(t.Context(), k, "b", answer(report{Pages: 5}), once.RecordIn(r))
				require.NoError(t, err)
				done := look(t, k, "b", once.RecordIn(r))
				require.True(t, done.Done)
				require.NoError(t, done.Err)
				require.Empty(t, done.Why)
				require.Contains(t, done.Type, "once_test.report#")
				require.Equal(t, time.Now(), done.Written)
				_, err = once.Do(t.Context(), k, "c", answer(report{}), once.RecordIn(r),
					once.MaxResult(1))
				require.ErrorIs(t, err, once.ErrResult)
				bare := look(t, k, "c", once.RecordIn(r))
				require.True(t, bare.Done)
				require.Equal(t, once.ErrResult, bare.Err)
				require.Contains(t, bare.Why, "above MaxResult")
				_, err = once.Do(t.Context(), k, "d", func(context.Context) (int, error) {
					return 0, once.Permanent(errOperation)
				}, once.RecordIn(r))
				require.ErrorIs(t, err, once.ErrGivenUp)
				givenUp := look(t, k, "d", once.RecordIn(r))
				require.False(t, givenUp.Done)
				require.Equal(t, once.ErrGivenUp, givenUp.Err)
			})
		})
	}
}

// A record of the first version has no times but that of its end.
func TestLookAtFormerAndForeignRecords(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.PutRecord("a", diedRecord)
		require.Equal(t, once.Info{
			Attempts: 1, Last: store.Holder{Node: "there"},
			Until: time.Now().Add(time.Minute),
		}, look(t, k, "a"))
		s.PutRecord("a", "cron1 7")
		_, err := once.Look(t.Context(), k, "a")
		require.ErrorIs(t, err, once.ErrRecord)
		require.ErrorIs(t, once.Forget(t.Context(), k, "a"), once.ErrRecord)
		require.Equal(t, "cron1 7", s.RecordOf("a"), "it is another package's")

		s.Script(script.Read, script.Fail(errDown))
		_, err = once.Look(t.Context(), k, "a")
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		_, err = once.Look(t.Context(), nil, "a")
		require.ErrorIs(t, err, renewer.ErrConfig)
		_, err = once.Look(t.Context(), k, "")
		require.ErrorIs(t, err, renewer.ErrName)
	})
}

// Work that is sealed, or done, is as new after Forget, and nothing stays in
// the store.
func TestForget(t *testing.T) {
	t.Parallel()
	for where, in := range recorders() {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				r := once.RecordIn(in(k))
				require.NoError(t, once.Forget(t.Context(), k, "a", r), "there is none")
				require.Empty(t, s.RecordOf("a"))
				_, err := once.Do(t.Context(), k, "a", fail, r, once.MaxAttempts(1))
				require.ErrorIs(t, err, once.ErrAttemptsExhausted)
				_, err = once.Do(t.Context(), k, "a", never(t), r)
				require.ErrorIs(t, err, once.ErrAttemptsExhausted)
				require.NoError(t, once.Forget(t.Context(), k, "a", r))
				require.Empty(t, s.RecordOf("a"))
				free(t, k, "a")
				got, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (int, error) {
					return once.Current(ctx).Number, nil
				}, r)
				require.NoError(t, err)
				require.Equal(t, 1, got)
				s.Script(script.Write, script.Pass().Broken(errDown))
				require.NoError(t, once.Forget(t.Context(), k, "a", r), "asked again")
				require.Empty(t, s.RecordOf("a"))
			})
		})
	}
}

// An attempt that runs is not forgotten under its feet. One that has lost its
// lock, and still runs, records nothing after it was.
func TestForgetWhileAnAttemptRuns(t *testing.T) {
	t.Parallel()
	for where, in := range recorders() {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				r, other := once.RecordIn(in(k)), keeper(t, s, "there")
				_, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (report, error) {
					for _, k := range []*renewer.Keeper{k, other} {
						err := once.Forget(context.WithoutCancel(t.Context()), k, "a", r)
						assert.ErrorIs(t, err, renewer.ErrBusy)
					}
					assert.ErrorIs(t, once.Forget(ctx, k, "a", r), renewer.ErrConfig, "its own")
					assert.Contains(t, s.RecordOf("a"), "once1 begun 1 ")
					s.Delete("a")
					<-ctx.Done()
					assert.NoError(t, once.Forget(t.Context(), other, "a", r))
					return report{Pages: 5}, nil
				}, r, once.NoRetry(), lockmw.Refuse())
				require.Error(t, err)
				require.Empty(t, s.RecordOf("a"))
				synctest.Wait()
			})
		})
	}
}

func TestForgetWhatCantBeMeant(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		for _, err := range []error{
			once.Forget(t.Context(), nil, "a"),
			once.Forget(t.Context(), k, "a", once.RecordIn(nil)),
			once.Forget(t.Context(), k, strings.Repeat("n", 513)),
		} {
			require.Error(t, err)
		}
		s.Default(script.Prepare, script.Fail(errDown))
		s.PutRecord("a", doneRecord)
		require.ErrorIs(t, once.Forget(t.Context(), k, "a"), renewer.ErrUnavailable)
		s.Default(script.Acquire, script.Fail(errDown))
		require.ErrorIs(t, once.Forget(t.Context(), k, "a"), renewer.ErrUnavailable)
		require.Equal(t, doneRecord, s.RecordOf("a"))
	})
}

// A name may be of a type of the program's own.
func TestNamesOfATypeOfTheirOwn(t *testing.T) {
	t.Parallel()
	type invoice string
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		got, err := once.Do(t.Context(), k, invoice("a"), answer(report{Pages: 3}))
		require.NoError(t, err)
		require.Equal(t, report{Pages: 3}, got)
		require.NotEmpty(t, s.RecordOf("a"))
		info, err := once.Look(t.Context(), k, invoice("a"))
		require.NoError(t, err)
		require.True(t, info.Done)
		require.NoError(t, once.Forget(t.Context(), k, invoice("a")))
		require.Empty(t, s.RecordOf("a"))
	})
}
