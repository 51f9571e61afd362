//go:build unix

package run_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/run"
)

// The time to end a command in grows with the time that it takes to look at its
// processes, and leaves room for a heartbeat, which comes after a third of the
// TTL.
func TestAhead(t *testing.T) {
	t.Parallel()
	const ttl, grace = 30 * time.Second, 6 * time.Second // and a reserve of 3s
	assert.Zero(t, run.Ahead(ttl, grace, 5*time.Millisecond))
	assert.Zero(t, run.Ahead(ttl, grace, 375*time.Millisecond))
	assert.Equal(t, time.Second, run.Ahead(ttl, grace, 500*time.Millisecond))
	most := run.Ahead(ttl, grace, time.Minute)
	assert.Less(t, most, ttl-grace-3*time.Second-ttl/3)
	assert.Equal(t, most, run.Ahead(ttl, grace, time.Hour))
}
