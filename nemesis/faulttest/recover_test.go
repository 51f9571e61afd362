package faulttest_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/nemesis/internal/kit"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// Two requests fail within two seconds of a missed heartbeat, and seconds before the lease would be
// given up.
var recoverConfig = renewer.Config{
	TTL: 16 * time.Second, Heartbeat: 2 * time.Second, RequestTimeout: time.Second,
	Node: "steadfast",
}

// Two heartbeats fail, then the fault ends within the TTL: the operation must not notice.
func TestTwoRenewalsFail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		args       []string // of the server
		fail, heal func(t *testing.T, n *node)
	}{
		{
			name: "connection reset",
			fail: func(t *testing.T, n *node) { n.link.Refuse(true); n.link.Reset() },
			heal: func(t *testing.T, n *node) { n.link.Refuse(false) },
		},
		{
			name: "blackhole, healed",
			fail: func(t *testing.T, n *node) { n.link.Blackhole(proxy.Both) },
			heal: func(t *testing.T, n *node) { n.link.Heal() },
		},
		{
			name: "blackhole, then reset",
			fail: func(t *testing.T, n *node) { n.link.Blackhole(proxy.Both) },
			heal: func(t *testing.T, n *node) { n.link.HealReset() },
		},
		{
			name: "replies blackholed",
			fail: func(t *testing.T, n *node) { n.link.Blackhole(proxy.Down) },
			heal: func(t *testing.T, n *node) { n.link.Heal() },
		},
		{
			name: "replies lost, one after the other",
			// However often a heartbeat asks, and on whichever of its connections.
			fail: func(t *testing.T, n *node) {
				n.link.DropReplyTo(about("lock"), math.MaxInt, proxy.ThenReset)
			},
			heal: func(t *testing.T, n *node) { n.link.DropReply(0, proxy.ThenReset) },
		},
		{
			name: "slow link",
			fail: func(t *testing.T, n *node) { n.link.Delay(time.Second) },
			heal: func(t *testing.T, n *node) { n.link.Delay(0) },
		},
		{
			name: "server frozen",
			fail: func(t *testing.T, n *node) { require.NoError(t, n.server.Stop()) },
			heal: func(t *testing.T, n *node) { require.NoError(t, n.server.Cont()) },
		},
		{
			name: "server killed, and restarted with its data",
			args: []string{"--appendonly", "yes", "--appendfsync", "no"},
			fail: func(t *testing.T, n *node) { n.server.Kill() },
			heal: func(t *testing.T, n *node) { require.NoError(t, n.server.Restart()) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := join(t, redistest.Start(t, c.args...), recoverConfig)
			lease := n.Acquire(t, "lock")
			n.Beats.Confirmed(t, 1)
			owned := kit.Look(t, n.server, "lock").Value

			c.fail(t, n)
			n.Beats.Failed(t, 2)
			c.heal(t, n)
			n.Beats.Confirmed(t, 2)
			require.NoError(t, context.Cause(lease.Context()), "the operation was disturbed")
			assert.True(t, lease.Valid())
			assert.Equal(t, owned, kit.Look(t, n.server, "lock").Value)
			require.NoError(t, lease.Release(t.Context()))
			assert.Empty(t, kit.Look(t, n.server, "lock").Value)
		})
	}
}

// A server that has forgotten everything is no outage but a loss:
// another process may have the lock by now.
func TestServerRestartedEmpty(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n, other := join(t, server, recoverConfig), join(t, server, recoverConfig)
	lease := n.Acquire(t, "lock")
	n.Beats.Confirmed(t, 1)
	server.Kill()
	require.NoError(t, server.Restart())
	next := other.Acquire(t, "lock")
	assert.Greater(t, next.Fence(), lease.Fence(), "fences rise although the counter was lost")

	lost := kit.Lost(t, lease)
	assert.Equal(t, renewer.ReasonTaken, lost.Reason)
	require.ErrorIs(t, lease.Release(t.Context()), renewer.ErrLost)
	other.Beats.Confirmed(t, 1)
	require.NoError(t, next.Context().Err())
	require.NoError(t, next.Release(t.Context()))
}
