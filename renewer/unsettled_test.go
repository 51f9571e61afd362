package renewer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// The release was carried out while a lost acquire could still arrive,
// and answered when it could not any more: the key is freed once more.
func TestSlowReleaseBeforeALostAcquire(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.SetSettle(4 * time.Second)
		s.Script(script.Acquire, script.Fail(errDown))
		// a request may end a sixteenth before RequestTimeout
		s.Script(script.Release, script.Pass().Late(1800*time.Millisecond))
		l := acquire(t, k, "a")
		waitFor(3 * time.Second)
		require.NoError(t, l.Release(t.Context()))
		waitFor(time.Minute)
		require.Len(t, s.Calls(script.Release), 2, "the second after Settle")
	})
}

// The same for the clean-up behind a caller who left.
func TestSlowCleanUpBeforeALostAcquire(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.SetSettle(time.Second)
		s.Script(script.Acquire, script.Fail(errDown))
		s.Script(script.Release, script.Pass().Late(1800*time.Millisecond))
		_, err := k.Acquire(context.Background(), renewer.Request{Name: "a", Try: true})
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		waitFor(time.Minute)
		require.Len(t, s.Calls(script.Release), 2, "the second after Settle")
	})
}

// What was never sent leaves nothing behind: a crowd that gives up costs the
// store no clean-ups.
func TestNothingIsCleanedUpBehindAQuestionThatWasNeverSent(t *testing.T) {
	t.Parallel()
	for step, want := range map[*script.Step]int{
		new(script.Fail(errDown)):          1,
		new(script.Fail(errDown).Unsent()): 0,
	} {
		cfg := config
		cfg.FailOver = time.Hour // it is asked all the time
		inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
			s.Default(script.Acquire, *step)
			_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
			require.ErrorIs(t, err, renewer.ErrUnavailable)
			waitFor(time.Minute)
			require.Len(t, s.Calls(script.Release), want)

			// One that was sent before it is not forgotten.
			s.Script(script.Acquire, script.Fail(errDown))
			_, err = k.Acquire(t.Context(), renewer.Request{Name: "a", MaxWait: time.Second})
			require.ErrorIs(t, err, renewer.ErrUnavailable)
			waitFor(time.Minute)
			require.Len(t, s.Calls(script.Release), want+1)
		})
	}
}
