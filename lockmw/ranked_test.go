package lockmw_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// An older call is refused whenever it comes, by whatever options; the same
// work runs again.
func TestRanked(t *testing.T) {
	t.Parallel()
	inMemory(t, func(t *testing.T, here, there *renewer.Keeper) {
		does := func(k *renewer.Keeper, rank int64, opts ...lockmw.Option) error {
			_, err := lockmw.Do(t.Context(), k, lockmw.Ranked("a", rank),
				func(ctx context.Context) (int, error) {
					assert.True(t, lockmw.Held(ctx, "a"))
					assert.True(t, lockmw.Held(ctx, lockmw.Ranked("a", 1)))
					assert.Positive(t, lockmw.FenceOf(ctx, lockmw.Ranked("a", rank)))
					return lockmw.Do(ctx, k, lockmw.Ranked("a", 1), answer) // runs inside of it
				}, opts...)
			return err
		}
		require.NoError(t, does(here, 6))
		for _, opts := range [][]lockmw.Option{
			nil, {lockmw.Latest()}, {lockmw.Replace()}, {lockmw.Refuse()}, {lockmw.Manual(time.Minute)},
		} {
			elapse(time.Hour)
			err := does(there, 5, opts...)
			require.ErrorIs(t, err, renewer.ErrReplaced)
			require.ErrorIs(t, err, renewer.ErrBusy)
			assert.Equal(t, adapter.RefusalReplaced, adapter.RefusalOf(err))
			require.NoError(t, does(there, 6, opts...))
		}
		require.ErrorIs(t, does(there, 5, lockmw.Skip()), lockmw.ErrSkipped)
		elapse(25 * time.Hour)
		require.NoError(t, does(there, 5), "a day later it is not known any more")
	})
}

// A lead has no rank, and the error says so.
func TestALeadHasNoRank(t *testing.T) {
	t.Parallel()
	inMemory(t, func(t *testing.T, here, _ *renewer.Keeper) {
		err := lockmw.Lead(t.Context(), here, lockmw.Ranked("a", 7),
			func(context.Context) error { return nil })
		require.ErrorIs(t, err, renewer.ErrConfig)
		require.ErrorContains(t, err, "without a rank")
	})
}

// A rank that can't be meant is an error at the call.
func TestRankedThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	const misuse, name = adapter.RefusalMisuse, adapter.RefusalName
	for says, c := range map[string]struct {
		name    lockmw.Set
		opts    []lockmw.Option
		refusal adapter.Refusal
	}{
		"its rank is 0;":   {lockmw.Ranked("a", 0), nil, name},
		"its rank is -1;":  {lockmw.All("b").And(lockmw.Ranked("a", -1)), nil, name},
		"it is empty":      {lockmw.Ranked("", 7), nil, name},
		"only a single":    {lockmw.All("a").And(lockmw.Ranked("b", 7)), nil, misuse},
		"a *script.Store":  {lockmw.Ranked("a", 7), nil, misuse},
		"Replace, Latest,": {lockmw.Ranked("a", 7), []lockmw.Option{lockmw.Refuse()}, misuse},
	} {
		inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
			_, err := lockmw.Do(t.Context(), k, c.name, answer, c.opts...)
			require.ErrorContains(t, err, says)
			assert.Equal(t, c.refusal, adapter.RefusalOf(err), says)
			assert.Empty(t, s.Calls(script.Acquire), "nothing was asked")
		})
	}
}
