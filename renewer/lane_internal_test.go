package renewer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A lane waits longer when its heartbeats are small, and less when they are large, within bounds.
func TestLanePace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		heartbeat, gapMost  time.Duration
		first, small, large time.Duration
	}{
		{10 * time.Second, gatherMost, gatherLeast, gatherMost, gatherLeast},
		{1280 * time.Millisecond, gatherMost, gatherLeast, 20 * time.Millisecond, gatherLeast}, // a sixty-fourth
		{64 * time.Millisecond, gatherMost, time.Millisecond, time.Millisecond, time.Millisecond},
		{10 * time.Second, alarmGap, alarmGap, alarmGap, alarmGap},
	} {
		ln := newLane(1, c.heartbeat, c.gapMost)
		assert.Equal(t, c.first, ln.gap)
		for range 20 {
			ln.pace(batchGood - 1)
		}
		assert.Equal(t, c.small, ln.gap)
		for range 20 {
			ln.pace(batchGood)
		}
		assert.Equal(t, c.large, ln.gap)
	}
}
