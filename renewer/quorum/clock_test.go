package quorum_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/renewer/quorum"
)

// A machine that slept has older confirmations than its monotonic
// clock says; a wall clock set back makes none younger.
func TestSleepCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ monotonic, wall, want time.Duration }{
		{time.Second, time.Second, time.Second},
		{time.Second, time.Second + time.Millisecond - 1, time.Second},
		{time.Second, time.Hour, time.Hour},
		{time.Second, -time.Hour, time.Second},
		{0, 0, 0},
	} {
		assert.Equal(t, c.want, quorum.Elapsed(c.monotonic, c.wall))
	}
}
