package renewer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A queue waits longer when its batches are small, and less when they are large, within bounds.
func TestAQueueFindsItsPace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		heartbeat, first, small, large time.Duration
	}{
		{10 * time.Second, gapLeast, gapMost, gapLeast},
		// a sixty-fourth
		{1280 * time.Millisecond, gapLeast, 20 * time.Millisecond, gapLeast},
		{64 * time.Millisecond, time.Millisecond, time.Millisecond, time.Millisecond},
	} {
		q := newShardQueue(1, c.heartbeat)
		assert.Equal(t, c.first, q.gap)
		for range 20 {
			q.pace(batchGood - 1)
		}
		assert.Equal(t, c.small, q.gap)
		for range 20 {
			q.pace(batchGood)
		}
		assert.Equal(t, c.large, q.gap)
	}
}
