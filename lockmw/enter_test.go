package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// An operation that is not one function: it begins here and ends on another
// goroutine.
func TestEnterAndExit(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		ctx, exit, err := adapter.Enter(t.Context(), k, "a", lockmw.Operation("stream"))
		require.NoError(t, err)
		require.True(t, lockmw.Held(ctx, "a"))
		_, _, err = adapter.Enter(t.Context(), k, "a", lockmw.Refuse())
		require.Equal(t, adapter.RefusalBusy, adapter.RefusalOf(err))

		inner, leave, err := adapter.Enter(ctx, k, "a")
		require.NoError(t, err, "the same call chain")
		require.Equal(t, lockmw.Fence(ctx), lockmw.Fence(inner))
		require.NoError(t, leave(nil))
		require.True(t, lockmw.Held(ctx, "a"), "the outer call's still")

		done := make(chan error)
		go func() { done <- exit(errOperation) }()
		require.Equal(t, errOperation, <-done)
		require.Error(t, ctx.Err())
		require.NoError(t, exit(nil), "once more does nothing")
		require.Len(t, s.Calls(script.Release), 1)
		free(t, k, "a")

		_, _, err = adapter.Enter(t.Context(), nil, "a")
		require.ErrorIs(t, err, renewer.ErrConfig)
	})
}

// An exit that is called twice leaves once: it does not take the outer call's
// lock away.
func TestAnInnerExitCalledTwice(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		ctx, exit, err := adapter.Enter(t.Context(), k, "a")
		require.NoError(t, err)
		_, leave, err := adapter.Enter(ctx, k, "a")
		require.NoError(t, err)
		for range 3 {
			require.NoError(t, leave(nil))
		}
		require.Empty(t, s.Calls(script.Release))
		require.True(t, lockmw.Held(ctx, "a"))
		require.NoError(t, exit(nil))
		require.Len(t, s.Calls(script.Release), 1)
	})
}

// Who must have answered soon can't wait for RequestTimeout.
func TestWithinBoundsTheQuestion(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]lockmw.Option{
		"refuse": lockmw.Refuse(),
		"skip":   lockmw.Skip(),
	} {
		for _, d := range []time.Duration{300 * time.Millisecond, 0, -time.Second} {
			t.Run(fmt.Sprint(name, d), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
					s.Script(script.Acquire, script.Hang())
					begun := time.Now()
					_, _, err := adapter.Enter(t.Context(), k, "a", policy, lockmw.Within(d))
					require.Equal(t, adapter.RefusalUnavailable, adapter.RefusalOf(err), "%v", err)
					require.InDelta(t, max(d, 0), time.Since(begun), 1)
				})
			})
		}
	}
}

func TestMaxWaiters(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		_, exit, err := adapter.Enter(t.Context(), k, "a")
		require.NoError(t, err)
		waits := make(chan error)
		go func() {
			_, err := lockmw.Do(t.Context(), k, "a", answer, lockmw.MaxWaiters(1))
			waits <- err
		}()
		synctest.Wait()
		begun := time.Now()
		_, err = lockmw.Do(t.Context(), k, "a", answer, lockmw.MaxWaiters(1))
		require.Equal(t, adapter.RefusalQueueFull, adapter.RefusalOf(err))
		require.ErrorIs(t, err, renewer.ErrBusy)
		require.Zero(t, time.Since(begun))
		require.NoError(t, exit(nil))
		require.NoError(t, <-waits)
	})
}

func TestRefusalOf(t *testing.T) {
	t.Parallel()
	is := func(kind, cause error) error {
		return &renewer.Error{Op: "acquire", Name: "a", Kind: kind, Err: cause}
	}
	for want, errs := range map[adapter.Refusal][]error{
		0:                   {nil},
		adapter.RefusalBusy: {is(renewer.ErrBusy, nil)},
		adapter.RefusalReplaced: {
			is(renewer.ErrBusy, renewer.ErrReplaced),
			&renewer.LostError{Reason: renewer.ReasonReplaced},
			is(context.Canceled, &renewer.LostError{Reason: renewer.ReasonReplaced}),
		},
		adapter.RefusalQueueFull: {is(renewer.ErrBusy, renewer.ErrQueueFull)},
		adapter.RefusalSkipped:   {fmt.Errorf("%w: a", lockmw.ErrSkipped)},
		adapter.RefusalUnavailable: {
			is(renewer.ErrUnavailable, errDown),
			is(renewer.ErrUnavailable, renewer.ErrRejected),
		},
		adapter.RefusalShutdown: {is(renewer.ErrShutdown, nil)},
		adapter.RefusalName:     {is(renewer.ErrName, errors.New("it is empty"))},
		adapter.RefusalLost: {
			&renewer.LostError{},
			is(context.Canceled, &renewer.LostError{}),
		},
		adapter.RefusalCancelled: {is(context.Canceled, nil), is(context.Canceled, errDown)},
		adapter.RefusalDeadline:  {is(context.DeadlineExceeded, nil)},
		adapter.RefusalMisuse:    {renewer.ErrConfig, errDown},
	} {
		for _, err := range errs {
			assert.Equal(t, want, adapter.RefusalOf(err), "%v", err)
		}
	}
}

func TestRetryIn(t *testing.T) {
	t.Parallel()
	held := func(d time.Duration) error { return &renewer.Error{Kind: renewer.ErrBusy, HeldFor: d} }
	for _, tt := range []struct {
		err  error
		base time.Duration
		want time.Duration
	}{
		{held(0), 0, time.Second},
		{held(20 * time.Second), 0, 10 * time.Second},
		{held(time.Hour), 0, 30 * time.Second},
		{held(time.Hour), 3 * time.Second, 3 * time.Second},
		{
			&renewer.Error{Kind: renewer.ErrUnavailable, HeldFor: time.Hour}, 0,
			5 * time.Second,
		},
		{renewer.ErrShutdown, 0, time.Second},
		{&renewer.Error{Kind: renewer.ErrBusy, Err: renewer.ErrLimitClosed}, 0, 5 * time.Second},
	} {
		least, most := tt.want*2, time.Duration(0)
		for range 1000 {
			d := adapter.RetryIn(tt.err, tt.base)
			least, most = min(least, d), max(most, d)
		}
		assert.GreaterOrEqual(t, least, tt.want/2)
		assert.Less(t, most, tt.want/2+tt.want)
		assert.Greater(t, most-least, tt.want/2, "spread")
	}
	for _, base := range []time.Duration{1, math.MaxInt64} {
		for range 100 {
			assert.Positive(t, adapter.RetryIn(held(0), base), "an adapter may take it for no delay")
		}
	}
}

// What comes with a request must not stand in for the lock that the request has
// here, whichever of the two was seen to first.
func TestAFencePassedOnDoesNotHideALockOfThisProcess(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		ctx, exit, err := adapter.Enter(t.Context(), k, "a")
		require.NoError(t, err)
		defer func() { require.NoError(t, exit(nil)) }()
		own := lockmw.FenceOf(ctx, "a")
		for _, passedOn := range []int64{
			1, 9, wire.MaxFence, wire.MaxFence + 1, math.MaxInt64, -1,
			math.MinInt64,
		} {
			require.Equal(t, own, lockmw.Fence(adapter.WithFence(ctx, passedOn)))
		}
		none := adapter.WithFence(ctx, 0)
		require.Zero(t, lockmw.Fence(none), "hidden, for what runs without the lock")
		require.Zero(t, lockmw.Fence(adapter.WithFence(none, 9)), "and stays so")
		inner, leave, err := adapter.Enter(none, k, "b")
		require.NoError(t, err)
		require.Equal(t, lockmw.FenceOf(inner, "b"), lockmw.Fence(inner), "a lock taken since")
		require.NoError(t, leave(nil))
		require.NoError(t, exit(nil))
		require.EqualValues(t, 9, lockmw.Fence(adapter.WithFence(ctx, 9)), "the lock is over")
	})
}

func TestWhatIsNoFenceIsNotPassedOn(t *testing.T) {
	t.Parallel()
	for _, none := range []int64{0, -1, math.MinInt64, wire.MaxFence + 1, math.MaxInt64} {
		require.Zero(t, lockmw.Fence(adapter.WithFence(t.Context(), none)))
	}
	require.Equal(t, int64(wire.MaxFence),
		lockmw.Fence(adapter.WithFence(t.Context(), wire.MaxFence)))
	require.EqualValues(t, 8, lockmw.Fence(adapter.WithFence(adapter.WithFence(t.Context(), 7), 8)),
		"the innermost")
}
