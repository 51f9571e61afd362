//go:build unix

package faulttest_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/proxy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// A replica that is promoted closes its link, so that a primary which wants a replica refuses to
// write at once. If that link falls silent first, as in a partition, the former primary goes on: for
// min-replicas-max-lag and up to two seconds, since Redis counts the lag in whole seconds, once a
// second. Until a TTL after that there may be two holders, and no longer.
func TestTheFormerPrimaryWantsAReplicaThatFellSilent(t *testing.T) {
	t.Parallel()
	const maxLag = 6 * time.Second
	former, heir := redistest.Start(t), redistest.Start(t)
	wire := followBy(t, heir, former)
	mustDo(t, former, "CONFIG", "SET", "min-replicas-max-lag", strconv.Itoa(int(maxLag/time.Second)))
	mustDo(t, former, "CONFIG", "SET", "min-replicas-to-write", "1")
	cfg := formerConfig
	beats := newBeats()
	cfg.Observer = beats
	servers := []*redistest.Server{former, heir}
	first := enlist(t, former.ClientOption(), servers, cfg) // no Sentinel reaches it
	lease := acquireOf(t, first, "lock")
	beats.confirmed(t, 3)
	stood := feel(t, beatEvery*20, former)

	silent := time.Now()
	wire.Blackhole(proxy.Both)
	mustDo(t, heir, "REPLICAOF", "NO", "ONE")
	second := enlist(t, heir.ClientOption(), servers, formerConfig)
	rival := acquireOf(t, second, "lock")
	assert.Greater(t, rival.Fence(), lease.Fence())
	two := time.Now()
	until := believed(lease)
	t.Logf("two holders for %v, until %v after the silence began", until.Sub(two), until.Sub(silent))
	assert.True(t, until.After(two), "the setting alone does not exclude it")
	assert.Less(t, until.Sub(silent),
		maxLag+2*time.Second+formerConfig.TTL+stood.stopped(silent))
	lost := ended(t, lease)
	assert.Equal(t, renewer.ReasonExpired, lost.Reason)
	require.ErrorContains(t, lost.Err, "NOREPLICAS")
	require.ErrorIs(t, lease.Release(context.Background()), renewer.ErrLost)
	assert.NoError(t, rival.Release(context.Background()))
}

// followBy makes a server the replica of another, by a link that can be cut.
func followBy(t *testing.T, replica, primary *redistest.Server) *proxy.Proxy {
	t.Helper()
	link := proxy.Start(t, primary.Addr())
	host, port, _ := strings.Cut(link.Addr(), ":")
	mustDo(t, replica, "REPLICAOF", host, port)
	require.Eventually(t, func() bool {
		n, err := primary.Do("WAIT", "1", "100").ToInt64()
		return err == nil && n == 1
	}, patience, 10*time.Millisecond)
	return link
}

// believed polls until a lease is not valid any more, and returns when it was last seen to be.
func believed(lease *renewer.Lease) (last time.Time) {
	for {
		now := time.Now()
		if !lease.Valid() {
			return last
		}
		last = now
		pass(time.Millisecond)
	}
}
