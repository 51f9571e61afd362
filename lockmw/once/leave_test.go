package once_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A caller that leaves while its attempt is being put on record takes that back: the attempt does
// not count, and nothing stays in the store that was not there.
func TestACallerLeavesWhileItsAttemptIsPutOnRecord(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		before, after string
		opts          []once.Option
	}{
		"new work": {"", "", nil},
		"after another attempt": {
			diedRecord, "once1 begun 1 4711 kept=86400000\nthere\n\n", nil,
		},
		"uncounted": {"", "", []once.Option{once.Uncounted(), once.NoRetry()}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				if row.before != "" {
					s.PutRecord("a", row.before)
				}
				s.Default(script.Acquire, script.Pass().Slow(10*time.Millisecond))
				for range 2 * once.DefaultMaxAttempts {
					ctx, cancel := context.WithCancel(t.Context())
					leave := 5 * time.Millisecond
					if row.before != "" {
						leave += 10 * time.Millisecond // the record is shown first
					}
					time.AfterFunc(leave, cancel)
					_, err := once.Do(ctx, k, "a", never(t), row.opts...)
					require.ErrorIs(t, err, context.Canceled)
					require.Equal(t, row.after, s.RecordOf("a"))
					require.Empty(t, s.Owner("a"))
				}
				_, err := once.Do(t.Context(), k, "a", answer(report{Pages: 5}), row.opts...)
				require.NoError(t, err)
			})
		})
	}
}

// A question under way is waited for beyond the caller's patience, so that no attempt stays on
// record whose function has not run.
func TestPatienceEndsWhileTheAttemptIsPutOnRecord(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Default(script.Acquire, script.Pass().Slow(10*time.Millisecond))
		begun := time.Now()
		_, err := once.Do(t.Context(), k, "a", answer(report{Pages: 5}),
			once.Wait(5*time.Millisecond))
		require.NoError(t, err)
		require.Equal(t, begun.Add(10*time.Millisecond), time.Now())
	})
}
