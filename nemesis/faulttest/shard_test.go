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
		TTL: 6 * time.Second, Heartbeat: 1500 * time.Millisecond, Margin: 1500 * time.Millisecond,
	}
	p := kit.Start(t, cluster.ClientOption(), cfg, cluster.Nodes()...)
	leases := make([]*renewer.Lease, 600)
	for i := range leases {
		leases[i] = p.Acquire(t, fmt.Sprint("lock ", i))
	}
	p.Beats.Confirmed(t, 3)

	victim := cluster.Masters[1]
	// No heartbeat may come between the look and the freeze.
	kit.Do(t, victim, "CLIENT", "PAUSE", "60000", "WRITE")
	keys, err := victim.Do("KEYS", "lockbeat:{*}").AsStrSlice()
	require.NoError(t, err)
	onVictim := make(map[string]bool)
	for _, key := range keys {
		onVictim[key] = true
	}
	deadlines := make(map[string]time.Time)
	for _, l := range leases {
		deadlines[l.Name()] = time.Now().Add(l.Remaining())
	}
	expires := make(map[string]time.Time)
	for _, l := range leases {
		if onVictim[kit.Key(l.Name())] {
			ms, err := victim.Do("PEXPIRETIME", kit.Key(l.Name())).AsInt64()
			require.NoError(t, err)
			expires[l.Name()] = time.UnixMilli(ms)
		}
	}
	require.NoError(t, victim.Stop())
	assert.InDelta(t, len(leases)/3, len(expires), float64(len(leases))/10)

	for _, l := range leases {
		if until, its := expires[l.Name()]; its {
			assert.Equal(t, renewer.ReasonExpired, kit.Lost(t, l).Reason)
			assert.Less(t, deadlines[l.Name()], until)
		}
	}
	wait(cfg.TTL - cfg.Margin)
	for _, l := range leases {
		if _, its := expires[l.Name()]; !its {
			assert.True(t, l.Valid(), l.Name())
		}
	}
	require.NoError(t, victim.Cont())
	kit.Do(t, victim, "CLIENT", "UNPAUSE")
	for _, l := range leases {
		_ = l.Release(t.Context()) // of a lost one it is ErrLost
	}
}
