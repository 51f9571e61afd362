//go:build unix

package faulttest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// The server counts what one idle lease costs.
func TestIdleLease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		ttl       time.Duration
		intervals int
	}{
		{"default options", renewer.DefaultTTL, 1},
		{"short", 6 * time.Second, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			n := join(t, server, renewer.Config{TTL: c.ttl})
			lease := n.acquire(t, "lock")
			// the rhythm starts here; before it was a random part of an interval
			n.beats.confirmed(t, 1)
			calls := func(command string) int64 {
				count, err := server.Calls(command)
				require.NoError(t, err)
				return count
			}
			begun := time.Now()
			scripts, renewals := calls("evalsha")+calls("eval"), calls("pexpire")
			heartbeat := n.keeper.Config().Heartbeat
			require.Equal(t, c.ttl/3, heartbeat)
			n.beats.confirmed(t, c.intervals)
			renewals, scripts = calls("pexpire")-renewals, calls("evalsha")+calls("eval")-scripts
			assert.GreaterOrEqual(t, renewals, int64(c.intervals))
			// A busy machine may have come to this later, and have been late with the first.
			assert.LessOrEqual(t, renewals, int64(time.Since(begun)/heartbeat)+2)
			assert.Equal(t, renewals, scripts, "scripts, for whatever purpose")
			require.NoError(t, lease.Release(t.Context()))
		})
	}
}
