package faulttest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/nemesis/internal/kit"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// One of three shards stands still while leases are held on all: none of the others' is lost, or
// even late, and each of its own is believed in no longer than its key can live.
func TestAFrozenShardCostsNoOther(t *testing.T) {
	t.Parallel()
	// The others notice that it is gone, and go on without it. Each would refuse everything if it
	// missed the other for so long too, as on a busy machine.
	cluster := redistest.StartCluster(t, 3, 0, "--cluster-node-timeout", "2000",
		"--cluster-require-full-coverage", "no")
	cfg := renewer.Config{
		TTL: 12 * time.Second, Heartbeat: 3 * time.Second, Margin: 1500 * time.Millisecond,
	}
	p := kit.Start(t, cluster.ClientOption(), cfg, cluster.Nodes()...)
	leases := make([]*renewer.Lease, 200)
	for i := range leases {
		leases[i] = p.Acquire(t, fmt.Sprint("lock ", i))
	}
	p.Beats.Confirmed(t, 1)

	victim := cluster.Masters[1]
	// No heartbeat may come between the look and the freeze.
	kit.Do(t, victim, "CLIENT", "PAUSE", "60000", "WRITE")
	keys, err := victim.Do("KEYS", "lockbeat:{*}").AsStrSlice()
	require.NoError(t, err)
	onVictim := make(map[string]bool)
	for _, key := range keys {
		onVictim[key] = true
	}
	held := 0
	for _, l := range leases {
		if !onVictim[kit.Key(l.Name())] {
			continue
		}
		held++
		ms, err := victim.Do("PTTL", kit.Key(l.Name())).AsInt64()
		require.NoError(t, err)
		left := l.Remaining()
		assert.True(t, left == 0 || left < time.Duration(ms)*time.Millisecond, l.Name())
	}
	assert.InDelta(t, len(leases)/3, held, float64(len(leases))/6)
	require.NoError(t, victim.Stop())

	for _, l := range leases {
		if onVictim[kit.Key(l.Name())] {
			assert.Equal(t, renewer.ReasonExpired, kit.Lost(t, l).Reason)
		}
	}
	for _, l := range leases {
		if !onVictim[kit.Key(l.Name())] {
			assert.True(t, l.Valid(), l.Name())
		}
	}
	require.NoError(t, victim.Cont())
	kit.Do(t, victim, "CLIENT", "UNPAUSE")
	for _, l := range leases {
		_ = l.Release(t.Context()) // of a lost one it is ErrLost
	}
}
