package once_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/internal/records"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A store that refuses for good is not asked again.
func TestRejected(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		rejected := script.Fail(renewer.ErrRejected)
		for op, recorder := range map[script.Op]once.Recorder{
			script.Acquire: records.Of(k), script.Read: records.Of(k), script.Prepare: records.Of(k),
			script.Write: plain{records.Of(k)},
		} {
			s.Script(op, rejected)
			_, err := once.Do(t.Context(), k, "a", never(t), once.RecordIn(recorder))
			require.ErrorIs(t, err, renewer.ErrRejected)
		}
		s.Script(script.Write, rejected, rejected)
		_, err := once.Do(t.Context(), k, "a", answer(report{}))
		require.ErrorIs(t, err, once.ErrNotRecorded)
		require.ErrorIs(t, err, renewer.ErrRejected)
	})
}

// A result that the store refuses is left out of the record. The work is done
// all the same, and is not done again.
func TestAResultThatTheStoreRefuses(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Write, script.Fail(fmt.Errorf("%w: 17 MiB", renewer.ErrRejected)))
		got, err := once.Do(t.Context(), k, "a", answer(report{Pages: 5}))
		require.ErrorIs(t, err, once.ErrResult)
		require.ErrorContains(t, err, "17 MiB")
		require.Equal(t, report{Pages: 5}, got, "whose attempt it was has it")
		for range once.DefaultMaxAttempts {
			_, err = once.Do(t.Context(), k, "a", never(t))
			require.ErrorIs(t, err, once.ErrResult)
			require.ErrorContains(t, err, "the store refuses")
		}
	})
}
