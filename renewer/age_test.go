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
		s.Default(script.Renew, script.Fail(errDown))
		s.Script(script.Renew, script.Held().Aged(time.Second))
		l := acquire(t, k, "a")
		at, _ := lostAt(t, l)
		first := s.Calls(script.Renew)[0].At
		assertInstant(t, first.Add(goodFor-time.Second), at, "the renewal was a second old")
		require.Error(t, l.Release(t.Context()))
	})
}
