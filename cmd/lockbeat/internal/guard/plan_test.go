//go:build unix

package guard_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/guard"
)

// The end begins at the deadline's first instant, and no grace lasts beyond its
// second.
func TestPlan(t *testing.T) {
	t.Parallel()
	deadline := guard.Deadline{Term: 100, Kill: 150}
	p := guard.NewPlan(deadline, 80*time.Nanosecond)
	assert.Equal(t, guard.Instant(100), guard.Next(p))
	assert.False(t, guard.Due(p, 99))
	assert.True(t, guard.Due(p, 100))
	p.Renew(guard.Deadline{Term: 200, Kill: 250})
	assert.False(t, guard.Due(p, 199))

	require.True(t, guard.End(p, 110), "the command has ended; the grace is for what it left")
	assert.False(t, guard.End(p, 120), "it has begun")
	assert.False(t, guard.Due(p, 200))
	assert.Equal(t, guard.Instant(190), guard.Next(p))
	p.Renew(guard.Deadline{Term: 300, Kill: 350})
	assert.Equal(t, guard.Instant(190), guard.Next(p), "a renewal gives it no more time")
	p.Renew(guard.Deadline{Term: 130, Kill: 130})
	assert.Equal(t, guard.Instant(130), guard.Next(p), "a loss gives it less")
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []string{"B=1", "AA=3", "A=x=y", "C="},
		guard.WithEnv([]string{"A=1", "B=1", "AA=3", "A=2"}, []string{"A=x=y", "C="}))
}
