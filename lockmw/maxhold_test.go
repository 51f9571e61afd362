package lockmw_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

const keepersMaxHold = 2 * time.Minute

func bounded(c *renewer.Config) { c.MaxHold = keepersMaxHold }

// A keeper's MaxHold bounds pieces of work, such as a request. A leader has
// none to finish.
func TestALeaderLeadsOnPastMaxHold(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		ctx, resign := context.WithCancel(t.Context())
		defer resign()
		terms := 0
		done := lead(ctx, k, func(ctx context.Context) error {
			terms++
			<-ctx.Done()
			return ctx.Err()
		})
		elapse(3*keepersMaxHold + time.Second)
		synctest.Wait()
		require.Equal(t, 1, terms)
		resign()
		require.ErrorIs(t, <-done, context.Canceled)
	}, bounded)
}

// A leader that is told to make way after a time does so.
func TestALeadersOwnMaxHold(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		var terms []time.Time
		require.ErrorIs(t, lockmw.Lead(t.Context(), k, "leader",
			func(ctx context.Context) error {
				terms = append(terms, time.Now())
				if len(terms) == 3 {
					return errOperation
				}
				<-ctx.Done()
				return ctx.Err()
			}, lockmw.MaxHold(5*time.Minute)), errOperation)
		require.Equal(t, 10*time.Minute, terms[2].Sub(terms[0]))
	}, bounded)
}

// until is how long a function that waits for its context to end has its lock
// on name, with a bound of its call's own; 0 if it is ended by its caller, an
// hour later.
func until(
	ctx context.Context, t *testing.T, k *renewer.Keeper, name lockmw.Set, opts ...lockmw.Option,
) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	begun := time.Now()
	_, err := lockmw.Do(ctx, k, name, func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}, opts...)
	took := time.Since(begun)
	if took == time.Hour {
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, renewer.ErrLost)
		return 0
	}
	var lost *renewer.LostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, renewer.ReasonMaxHold, lost.Reason)
	setting := "Config.MaxHold"
	if len(opts) > 0 {
		setting = fmt.Sprintf("%v, as long as the option MaxHold of its call", took)
	}
	require.ErrorContains(t, lost, setting)
	return took
}

// A call's bound takes the place of the keeper's; those of the calls inside of
// it change nothing.
func TestMaxHoldOfACall(t *testing.T) {
	t.Parallel()
	for _, name := range []lockmw.Set{lockmw.All("a"), lockmw.All("a", "b")} {
		inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
			ctx := t.Context()
			require.Equal(t, keepersMaxHold, until(ctx, t, k, name))
			require.Equal(t, time.Minute, until(ctx, t, k, name, lockmw.MaxHold(time.Minute)))
			require.Equal(t, 5*time.Minute, until(ctx, t, k, name, lockmw.MaxHold(5*time.Minute)))
			require.Zero(t, until(ctx, t, k, name, lockmw.MaxHold(lockmw.NoBound)))
			for _, none := range []time.Duration{0, -time.Minute} {
				_, err := lockmw.Do(ctx, k, name, answer, lockmw.MaxHold(none))
				require.ErrorIs(t, err, renewer.ErrConfig)
			}

			begun := time.Now()
			op, exit, err := adapter.Enter(ctx, k, name, lockmw.MaxHold(10*time.Minute))
			require.NoError(t, err)
			_, inner, err := adapter.Enter(op, k, "a", lockmw.MaxHold(time.Minute))
			require.NoError(t, err)
			<-op.Done()
			require.Equal(t, 10*time.Minute, time.Since(begun))
			require.NoError(t, inner(nil))
			require.NoError(t, exit(nil))
		}, bounded)
	}
}

// What can't work is refused before anything is asked.
func TestMaxHoldThatCantBe(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		short := lockmw.MaxHold(5*time.Second - 1)
		for _, name := range []lockmw.Set{lockmw.All("a"), lockmw.All("a", "b")} {
			_, err := lockmw.Do(t.Context(), k, name, answer, short)
			require.ErrorIs(t, err, renewer.ErrConfig)
			require.Equal(t, adapter.RefusalMisuse, adapter.RefusalOf(err))
			require.ErrorContains(t, err, "MaxHold is 4.999999999s")
		}
		require.ErrorIs(t, lockmw.Lead(t.Context(), k, "a",
			func(context.Context) error { return nil }, short), renewer.ErrConfig)
		require.Empty(t, s.Calls(script.Acquire))
	})
}
