package renewer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A store that puts the answers of several together may have learned
// of the lease's time earlier: belief is shorter by that.
func TestAnAnswersAgeShortensBelief(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Acquire, script.Held().Aged(time.Second))
		begun := time.Now()
		l := acquire(t, k, "a")
		require.InDelta(t, goodFor-time.Second, l.Remaining(), float64(rounding))
		s.Default(script.Renew, script.Hang())
		at, _ := lostAt(t, l)
		assertInstant(t, begun.Add(goodFor-time.Second), at, "the grant was a second old")
		require.Error(t, l.Release(t.Context()))

		s.Default(script.Renew, script.Fail(errDown))
		s.Script(script.Renew, script.Held().Aged(time.Second))
		l = acquire(t, k, "b")
		at, _ = lostAt(t, l)
		sent := s.Calls(script.Renew)
		var first time.Time
		for _, c := range sent {
			if c.Holds[0].Name == "b" {
				first = c.At
				break
			}
		}
		assertInstant(t, first.Add(goodFor-time.Second), at, "the renewal was a second old")
		require.Error(t, l.Release(t.Context()))
	})
}

// An answer as old as the lease is good for is none.
func TestAnAnswerTooOldIsNoGrant(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Acquire, script.Held().Aged(goodFor))
		_, err := k.TryAcquire(t.Context(), "a")
		require.ErrorIs(t, err, renewer.ErrUnavailable)
	})
}
