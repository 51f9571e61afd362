//go:build unix

package faulttest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// slowConfig has so long an interval that no heartbeat can be mistaken for a push.
var slowConfig = renewer.Config{TTL: time.Minute, Heartbeat: 20 * time.Second, Node: "told"}

// guarded waits until the server tells of changes to a lease: its first heartbeat has gone through on the connection that is tracked.
func guarded(t *testing.T, n *node) {
	t.Helper()
	warm := n.acquire(t, "opens the connection")
	n.beats.renewed(t, 1)
	require.NoError(t, warm.Release(t.Context()))
	n.beats.forget()
}

// Whoever deletes or overwrites a key is told of by the server at once, and the operation with it, for one lease as for many.
func TestToldByPush(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		leases int
		strike func(t *testing.T, server *redistest.Server)
	}{
		{"deleted", 1, func(t *testing.T, server *redistest.Server) { mustDo(t, server, "DEL", key("lock-0")) }},
		{"overwritten", 1, func(t *testing.T, server *redistest.Server) {
			mustDo(t, server, "SET", key("lock-0"), foreign, "PX", "60000")
		}},
		{"deleted, of many", 2000, func(t *testing.T, server *redistest.Server) { mustDo(t, server, "DEL", key("lock-0")) }},
		{"all flushed", 2000, func(t *testing.T, server *redistest.Server) { mustDo(t, server, "FLUSHALL") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			n := join(t, server, slowConfig)
			guarded(t, n)
			leases := make([]*renewer.Lease, c.leases)
			for i := range leases {
				leases[i] = n.acquire(t, fmt.Sprintf("lock-%d", i))
			}
			n.beats.renewed(t, c.leases)
			c.strike(t, server)
			struck := time.Now()
			lost := ended(t, leases[0])
			assert.Less(t, time.Since(struck), busy, "long before the next heartbeat")
			assert.Equal(t, renewer.Usurped, lost.Reason)
			require.ErrorIs(t, leases[0].Release(t.Context()), renewer.ErrLost)
			for _, l := range leases[1:] {
				if c.name == "all flushed" {
					require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
				} else {
					require.NoError(t, l.Release(t.Context()))
				}
			}
		})
	}
}

// At each command that reads, the server notes every key of the script as tracked: a read for each lease of a heartbeat would take it
// three times as long as the renewals.
func TestAGuardedRenewalReadsNoLeaseByItself(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := join(t, server, slowConfig)
	guarded(t, n)
	mustDo(t, server, "CONFIG", "RESETSTAT")
	const leases = 50
	for i := range leases {
		lease := n.acquire(t, fmt.Sprintf("lock-%d", i))
		defer func() { assert.NoError(t, lease.Release(context.Background())) }()
	}
	n.beats.renewed(t, leases)
	// An acquire reads the fence's counter; a lease that is renewed twice in a millisecond is looked at.
	for command, most := range map[string]int64{"pttl": leases / 5, "get": leases} {
		calls, err := server.Calls(command)
		require.NoError(t, err)
		assert.LessOrEqual(t, calls, most, command)
	}
}

// A key that somebody has taken the TTL from has it again at once: it must not outlive its holder.
func TestAGuardedLeaseWithoutTTL(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := join(t, server, slowConfig)
	guarded(t, n)
	lease := n.acquire(t, "lock")
	n.beats.renewed(t, 1)
	mustDo(t, server, "PERSIST", key("lock"))
	n.beats.renewed(t, 1)
	left, err := server.Do("PTTL", key("lock")).AsInt64()
	require.NoError(t, err)
	assert.Positive(t, left)
	require.NoError(t, lease.Release(t.Context()))
}

// What is told is a reason to ask, and believed no further.
func TestAPushIsNotBelieved(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := join(t, server, slowConfig)
	guarded(t, n)
	lease := n.acquire(t, "lock")
	n.beats.renewed(t, 1)
	value := mustLook(t, server, "lock").value
	for range 5 { // written anew with the same value: changed, and ours all the same
		mustDo(t, server, "SET", key("lock"), value, "PX", "30000")
		n.beats.renewed(t, 1)
		assert.True(t, lease.Valid())
	}
	require.NoError(t, lease.Release(t.Context()))
}

// A client that can't be told, since it speaks RESP2 or has no right to, hears of a loss by its heartbeat, as ever.
func TestWithoutPushesTheHeartbeatTells(t *testing.T) {
	t.Parallel()
	config := renewer.Config{TTL: 3 * time.Second, Node: "not told"}
	t.Run("RESP2", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		n := join(t, server, config, func(o *rueidis.ClientOption) { o.AlwaysRESP2 = true })
		toldByHeartbeat(t, n)
	})
	t.Run("no right to be tracked", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		mustDo(t, server, "ACL", "SETUSER", "default", "-client|tracking")
		toldByHeartbeat(t, join(t, server, config))
	})
}

func toldByHeartbeat(t *testing.T, n *node) {
	t.Helper()
	lease := n.acquire(t, "lock")
	n.beats.confirmed(t, 2)
	mustDo(t, n.server, "DEL", key("lock"))
	struck := time.Now()
	lost := ended(t, lease)
	assert.Less(t, time.Since(struck), n.keeper.Config().Heartbeat+busy)
	assert.Equal(t, renewer.Usurped, lost.Reason)
	require.ErrorIs(t, lease.Release(t.Context()), renewer.ErrLost)
}

// The connection on which changes are told may go at any time: heartbeats use the client's own at once, nothing is lost, and what is
// held is guarded again when there is a new one.
func TestTheTrackedConnectionIsCut(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := join(t, server, slowConfig)
	guarded(t, n)
	lease := n.acquire(t, "lock")
	n.beats.renewed(t, 1)
	for range 3 {
		mustDo(t, server, "CLIENT", "KILL", "TYPE", "normal") // all but the one that asks
	}
	require.Eventually(t, func() bool {
		lines, err := server.Do("CLIENT", "LIST").ToString()
		return err == nil && strings.Contains(lines, "flags=t")
	}, patience, 10*time.Millisecond, "the next heartbeat brings a new one")
	assert.True(t, lease.Valid())
	require.NoError(t, lease.Context().Err())
	require.NoError(t, lease.Release(t.Context()))
}
