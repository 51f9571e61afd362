package beat

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// Leases taken one after another have their first heartbeat together, no more
// of them than go into one, in the second half of the interval; and all cohorts
// fill that half evenly.
func TestCohorts(t *testing.T) {
	t.Parallel()
	const heartbeat, cohorts = time.Second, 64
	c := newCohort(heartbeat)
	tenths := make([]int, 10)
	sent := timing.Instant(1)
	for range cohorts {
		first := c.join(sent)
		for range batchMost - 1 {
			sent = sent.Add(time.Microsecond)
			require.Equal(t, first, c.join(sent))
		}
		ahead := first.Sub(sent)
		require.LessOrEqual(t, ahead, heartbeat)
		require.Greater(t, ahead, heartbeat/2-heartbeat/64)
		tenths[min(9, max(0, int(20*(ahead-heartbeat/2)/heartbeat)))]++
	}
	for _, n := range tenths {
		assert.InDelta(t, cohorts/10, n, 3, "%v", tenths)
	}
}

// A lease that comes later does not join a cohort, which would have it beat
// before its time.
func TestACohortIsSoonClosed(t *testing.T) {
	t.Parallel()
	c := newCohort(time.Second)
	first := c.join(1)
	assert.Equal(t, first, c.join(timing.Instant(1).Add(time.Second/64)))
	assert.NotEqual(t, first, c.join(timing.Instant(2).Add(time.Second/64)))
}

// One that was asked for long ago, and is granted now, does not wait for those
// that came meanwhile.
func TestALateGrantJoinsNoCohortBeyondItsTime(t *testing.T) {
	t.Parallel()
	c := newCohort(time.Second)
	c.join(timing.Instant(2 * time.Second))
	assert.Equal(t, timing.Instant(time.Second+1), c.join(1))
}
