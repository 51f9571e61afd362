package once_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/records"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A caller that leaves before the function has begun uses up no attempt, at
// whichever question it leaves, and nothing stays in the store that was not
// there.
func TestACallerLeavesBeforeItsAttempt(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		before, after string
		opts          []once.Option
	}{
		"new work": {"", "", nil},
		"after another attempt": {
			diedRecord, "once1 begun 1 4711 kept=86400000\nthere\n\n", nil,
		},
		"uncounted":     {"", "", []once.Option{once.MaxAttempts(lockmw.NoBound), once.NoRetry()}},
		"written later": {"", "", []once.Option{nil}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				questions := []script.Op{script.Acquire, script.Prepare}
				if row.before != "" {
					s.PutRecord("a", row.before)
				}
				if len(row.opts) == 1 {
					row.opts[0] = once.RecordIn(plain{records.Of(k)})
					questions = append(questions, script.Write)
				}
				for _, op := range questions {
					want := row.after
					if op == script.Acquire {
						want = row.before
					}
					for range once.DefaultMaxAttempts {
						s.Script(op, script.Pass().Slow(10*time.Millisecond))
						ctx, cancel := context.WithCancel(t.Context())
						time.AfterFunc(5*time.Millisecond, cancel)
						_, err := once.Do(ctx, k, "a", never(t), row.opts...)
						require.ErrorIs(t, err, context.Canceled)
						synctest.Wait()
						require.Zero(t, s.Left(op))
						require.Equal(t, want, s.RecordOf("a"))
						require.Empty(t, s.Owner("a"))
					}
				}
				_, err := once.Do(t.Context(), k, "a", answer(report{Pages: 5}), row.opts...)
				require.NoError(t, err)
			})
		})
	}
}

// The answer about a record is waited for beyond the caller's patience, so that
// no attempt stays on record whose function has not run.
func TestPatienceEndsWhileTheAttemptIsPutOnRecord(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Default(script.Prepare, script.Pass().Slow(10*time.Millisecond))
		begun := time.Now()
		_, err := once.Do(t.Context(), k, "a", answer(report{Pages: 5}),
			lockmw.Wait(5*time.Millisecond))
		require.NoError(t, err)
		require.Equal(t, begun.Add(10*time.Millisecond), time.Now())
	})
}
