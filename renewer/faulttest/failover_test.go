//go:build unix

package faulttest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// A wide margin, since many servers share two cores with the keepers.
var failoverConfig = renewer.Config{
	TTL: 6 * time.Second, Heartbeat: time.Second, Margin: 1500 * time.Millisecond, Poll: time.Second,
}

// A fail-over in the middle of 200 held leases, for each of which a rival waits: each lease survives, with its key on the new
// primary, or its holder is told before the rival gets the lock.
func TestFailOver(t *testing.T) {
	t.Parallel()
	for name, strike := range map[string]func(t *testing.T, s *redistest.Sentinel, primary *redistest.Server){
		"of a primary that is frozen": func(t *testing.T, _ *redistest.Sentinel, primary *redistest.Server) {
			require.NoError(t, primary.Stop())
		},
		"of a primary that is killed": func(t *testing.T, _ *redistest.Sentinel, primary *redistest.Server) { primary.Kill() },
		"when the Sentinel that clients listen to is frozen": func(t *testing.T, s *redistest.Sentinel, primary *redistest.Server) {
			require.NoError(t, s.Sentinels[0].Stop())
			primary.Kill()
		},
		"for no reason": func(t *testing.T, s *redistest.Sentinel, _ *redistest.Server) {
			require.NoError(t, s.Sentinels[0].Do("SENTINEL", "FAILOVER", redistest.MasterSet).Error())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failOver(t, strike)
		})
	}
}

func failOver(t *testing.T, strike func(t *testing.T, s *redistest.Sentinel, primary *redistest.Server)) {
	const n = 200
	sentinel := redistest.StartSentinel(t)
	old, err := sentinel.Primary()
	require.NoError(t, err)
	heir, err := sentinel.Replica()
	require.NoError(t, err)
	m := enlist(t, sentinel.ClientOption(), sentinel.Nodes(), failoverConfig)
	rival := enlist(t, sentinel.ClientOption(), sentinel.Nodes(), failoverConfig)

	leases := m.takeMany(t, n)
	told, next := make([]chan time.Time, n), make([]chan got, n)
	for i, l := range leases {
		told[i], next[i] = make(chan time.Time, 1), make(chan got, 1)
		context.AfterFunc(l.Context(), func() { told[i] <- time.Now() })
		go func() {
			l, err := rival.keeper.Acquire(context.Background(), l.Name(), renewer.MaxWait(6*patience))
			next[i] <- got{l, time.Now(), err}
		}()
	}
	pass(failoverConfig.Heartbeat)

	struck := time.Now()
	strike(t, sentinel, old)
	require.NoError(t, sentinel.AwaitPrimary(heir))
	t.Logf("failed over after %v", time.Since(struck))
	pass(failoverConfig.TTL)

	survived := 0
	for i, l := range leases {
		var at time.Time
		if l.Valid() {
			survived++
			assert.NotEmpty(t, mustLook(t, heir, l.Name()).value, "%s has its key on the new primary", l.Name())
			at = time.Now()
			assert.NoError(t, l.Release(context.Background()))
		} else {
			at = <-told[i]
			require.ErrorIs(t, l.Release(context.Background()), renewer.ErrLost)
		}
		g := <-next[i]
		require.NoError(t, g.err)
		assert.False(t, g.at.Before(at), "%s: two holders for %v", l.Name(), at.Sub(g.at))
		assert.Greater(t, g.lease.Fence(), l.Fence())
		assert.NoError(t, g.lease.Release(context.Background()))
	}
	t.Logf("%d of %d leases survived", survived, n)
}

// What asynchronous replication costs: a lock that the primary granted while its replica was cut off is not known after the
// fail-over. The next owner gets it at once, with a higher token, while the first believes in it. With Replicas it would not have
// been granted.
func TestAGrantThatTheReplicaMissed(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	old, err := sentinel.Primary()
	require.NoError(t, err)
	heir, err := sentinel.Replica()
	require.NoError(t, err)
	// The first heartbeat comes after the fail-over.
	cfg := renewer.Config{TTL: 24 * time.Second, Heartbeat: 8 * time.Second}
	m := enlist(t, sentinel.ClientOption(), sentinel.Nodes(), cfg)
	rival := enlist(t, sentinel.ClientOption(), sentinel.Nodes(), cfg)
	sure := enlist(t, sentinel.ClientOption(), sentinel.Nodes(), failoverConfig, redisstore.Replicas(1))
	// The replica has been in step; until it says so again, which WAIT needs, it may take a moment.
	confirmed, err := sure.keeper.Acquire(t.Context(), "confirmed", renewer.MaxWait(patience))
	require.NoError(t, err)

	// The replica may not follow any longer, and Sentinels do not mind for some seconds.
	mustDo(t, old, "ACL", "SETUSER", "default", "-psync", "-sync")
	mustDo(t, old, "CLIENT", "KILL", "TYPE", "replica")
	missed, err := m.keeper.TryAcquire(t.Context(), "missed")
	require.NoError(t, err, "nothing tells of the danger")
	_, err = sure.keeper.TryAcquire(t.Context(), "unconfirmed")
	require.ErrorIs(t, err, renewer.ErrUnavailable)
	require.ErrorIs(t, err, redisstore.ErrReplicas)
	require.Empty(t, mustLook(t, heir, "missed").value)
	gone(t, old, "unconfirmed", time.Now())

	old.Kill()
	second, err := rival.keeper.Acquire(t.Context(), "missed", renewer.MaxWait(patience))
	require.NoError(t, err)
	assert.True(t, missed.Valid(), "two holders")
	assert.Greater(t, second.Fence(), missed.Fence(), "a resource that refuses lower tokens is safe")
	_, err = rival.keeper.TryAcquire(t.Context(), "confirmed")
	require.ErrorIs(t, err, renewer.ErrHeld, "what a replica confirmed is known")
	require.True(t, confirmed.Valid())
	for _, l := range []*renewer.Lease{second, confirmed} {
		assert.NoError(t, l.Release(t.Context()))
	}
	assert.ErrorIs(t, missed.Release(t.Context()), renewer.ErrLost, "its holder hears of it late, if before the end")
}
