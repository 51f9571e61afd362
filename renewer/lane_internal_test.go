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
		heartbeat, first, small, large time.Duration
	}{
		{10 * time.Second, gatherLeast, gatherMost, gatherLeast},
		// a sixty-fourth
		{1280 * time.Millisecond, gatherLeast, 20 * time.Millisecond, gatherLeast},
		{64 * time.Millisecond, time.Millisecond, time.Millisecond, time.Millisecond},
	} {
		ln := newLane(1, c.heartbeat)
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
