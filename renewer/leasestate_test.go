package renewer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// Belief is counted from requests, never from answers; it only moves on; it ends with the lease.
func TestALeasesState(t *testing.T) {
	t.Parallel()
	const sent, now = time.Second, 3 * time.Second
	held := func(t *testing.T, cfg renewer.Config) (h renewer.Held, belief time.Duration) {
		t.Helper()
		k, err := renewer.New(script.New(), cfg)
		require.NoError(t, err)
		require.NoError(t, k.Shutdown(t.Context()))
		cfg = k.Config()
		drift := cfg.ClockDrift
		belief = time.Duration(float64(cfg.TTL)*(1-drift)/(1+drift)) - time.Millisecond -
			cfg.Margin
		return renewer.NewHeld(k, sent, now), belief
	}
	t.Run("granted and renewed", func(t *testing.T) {
		t.Parallel()
		h, belief := held(t, config)
		assert.Equal(t, sent+belief, h.Until())
		h.Renewed(sent + 2*time.Second)
		h.Renewed(sent + time.Second) // its answer was overtaken
		assert.Equal(t, sent+2*time.Second+belief, h.Until())
		h.Missed(errDown)
		assert.Equal(t, sent+2*time.Second+belief, h.Until())
	})
	t.Run("limited", func(t *testing.T) {
		t.Parallel()
		cfg := config
		cfg.MaxHold = time.Minute
		h, belief := held(t, cfg)
		h.Renewed(sent + 60*time.Second)
		assert.Equal(t, now+time.Minute, h.Until())
		h.LimitTo(now+2*time.Minute, renewer.ReasonAbandoned)
		assert.Equal(t, now+time.Minute, h.Until())
		h.LimitTo(now+time.Second, renewer.ReasonAbandoned)
		assert.Equal(t, now+time.Second, h.Until())
		assert.Positive(t, belief)
	})
	t.Run("passed on", func(t *testing.T) {
		t.Parallel()
		h, belief := held(t, config)
		h.LimitTo(now+time.Second, renewer.ReasonAbandoned)
		next := h.Transfer(0, 7, now+time.Second/2)
		assert.Zero(t, h.Until())
		assert.Equal(t, sent+belief, next.Until(), "the store's time goes on, the limit does not")
	})
	t.Run("lost", func(t *testing.T) {
		t.Parallel()
		h, belief := held(t, config)
		h.Missed(errDown)
		h.Lose(renewer.ReasonExpired, sent+belief)
		assert.Zero(t, h.Until())
		require.ErrorIs(t, h.Lost(), errDown)
		assert.Equal(t, config.Margin, h.Lost().Left)

		h, _ = held(t, config)
		h.Missed(errDown)
		h.Renewed(now)
		h.Lose(renewer.ReasonExpired, now)
		require.NotErrorIs(t, h.Lost(), errDown, "that one does not matter any more")

		h, _ = held(t, config)
		h.Lose(renewer.ReasonTaken, now)
		assert.Zero(t, h.Lost().Left)
	})
	t.Run("released", func(t *testing.T) {
		t.Parallel()
		h, _ := held(t, config)
		h.Release()
		assert.Zero(t, h.Until())
		assert.Nil(t, h.Lost())
	})
}
