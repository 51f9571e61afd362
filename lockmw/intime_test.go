package lockmw_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/internal/scope"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestMarginBeforeADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for left, want := range map[time.Duration]time.Duration{
			-time.Second: -time.Second, 0: 0, time.Second: 750 * time.Millisecond,
			20 * time.Second: 15 * time.Second, time.Minute: 55 * time.Second,
		} {
			assert.Equal(t, want, time.Until(scope.AnswerBy(time.Now().Add(left))), left)
		}
	})
}

// A caller is refused a margin before its deadline, for the reason that it
// would have been refused for without one.
func TestCallsAreAnsweredInTime(t *testing.T) {
	t.Parallel()
	const margin = 250 * time.Millisecond // of a second
	held := script.Taken(other, time.Minute)
	for name, c := range map[string]struct {
		key      lockmw.Set
		store    script.Step
		opts     []lockmw.Option
		deadline time.Duration // 0: none
		want     error
		after    time.Duration
	}{
		"waits":               {lockmw.All("a"), held, nil, time.Second, renewer.ErrBusy, time.Second - margin},
		"waits for several":   {lockmw.All("a", "b"), held, nil, time.Second, renewer.ErrBusy, time.Second - margin},
		"waits for the store": {lockmw.All("a"), script.Hang(), nil, time.Second, renewer.ErrUnavailable, time.Second - margin},
		"refuses":             {lockmw.All("a"), held, []lockmw.Option{lockmw.Refuse()}, time.Second, renewer.ErrBusy, 0},
		"refuses, and the store hangs": {
			lockmw.All("a"), script.Hang(),
			[]lockmw.Option{lockmw.Refuse()},
			time.Second,
			renewer.ErrUnavailable, time.Second - margin,
		},
		"has a wait that is shorter": {
			lockmw.All("a"), held, []lockmw.Option{lockmw.Wait(margin)}, time.Second, renewer.ErrBusy, margin,
		},
		"has less time for the store": {
			lockmw.All("a"), script.Hang(),
			[]lockmw.Option{lockmw.Refuse(), lockmw.Within(margin)},
			time.Second,
			renewer.ErrUnavailable, margin,
		},
		"has no deadline": {lockmw.All("a"), held, nil, 0, renewer.ErrBusy, lockmw.DefaultWait},
		"has no time": {
			lockmw.All("a"), held, nil, -time.Second, context.DeadlineExceeded, 0,
		},
	} {
		inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
			s.Default(script.Acquire, c.store)
			ctx, cancel := t.Context(), func() {}
			if c.deadline != 0 {
				ctx, cancel = context.WithTimeout(ctx, c.deadline)
			}
			defer cancel()
			begun := time.Now()
			_, err := lockmw.Do(ctx, k, c.key, answer, append(c.opts, adapter.AnswerInTime())...)
			assert.ErrorIs(t, err, c.want, name)
			assert.Equal(t, c.after, time.Since(begun), name)
		})
	}
}

// Only the wait is bounded: a function that has its lock may use up the time
// that is left.
func TestFunctionsGetTheWholeTime(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		_, err := lockmw.Do(ctx, k, "a", func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}, adapter.AnswerInTime())
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(begun))
	})
}
