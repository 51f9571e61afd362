package quorum_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// minSweep is how many leases are known before the table is searched for lapsed
// ones.
const minSweep = 64

// fill acquires n names, from the first on.
func fill(t *testing.T, s *quorum.Engine, first, n int) {
	t.Helper()
	for i := range n {
		c := claim(strconv.Itoa(first+i), "a")
		require.Equal(t, store.StatusHeld,
			s.Acquire(t.Context(), []store.Claim{c})[0].Status)
	}
	synctest.Wait()
}

// A lease is forgotten when it was confirmed more than two TTLs ago, and no
// sooner.
func TestSweepAtAnExactInstant(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		after time.Duration
		known int
	}{
		{2*ttl - 1, minSweep + 1},
		{2 * ttl, minSweep + 1},
		{2*ttl + 1, 1},
	} {
		t.Run(c.after.String(), func(t *testing.T) {
			t.Parallel()
			inBubble(t, 3, func(t *testing.T, s *quorum.Engine, _ []*script.Store) {
				fill(t, s, 0, minSweep)
				waitFor(c.after)
				require.Equal(t, minSweep, quorum.Known(s), "a table is swept only when it grows")
				fill(t, s, minSweep, 1)
				assert.Equal(t, c.known, quorum.Known(s))
			})
		})
	}
}

// A sweep leaves what is still to be cleaned up, even if it is older than a
// lapsed lease.
func TestSweepKeepsWhatIsToBeFreed(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		for _, node := range nodes[1:] {
			node.SetSettle(4 * ttl)
			node.Script(script.Acquire, script.Pass().Lost())
		}
		require.Equal(t, store.StatusUnknown,
			acquire(limited(t, time.Second), s, "a").Status)
		waitFor(time.Second)
		fill(t, s, 0, minSweep-1)
		waitFor(2*ttl + 1)
		fill(t, s, minSweep, 1)
		require.Equal(t, 2, quorum.Known(s), "this one, and the one that was not answered")
		require.Empty(t, nodes[1].Calls(script.Release))
		waitFor(2 * ttl)
		require.Len(t, nodes[1].Calls(script.Release), 1, "when the acquire has settled")
	})
}
