package faulttest_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/nemesis/internal/kit"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// formerConfig has many heartbeats in a TTL, so that a lease that is renewed in the wrong place
// lives on there for long.
var formerConfig = renewer.Config{
	TTL: 6 * time.Second, Heartbeat: 400 * time.Millisecond, Margin: 600 * time.Millisecond,
	Poll: 400 * time.Millisecond,
}

// standoff is a fail-over that leaves the former primary up: no Sentinel can demote it, and its
// clients can reach it.
type standoff struct {
	sentinel      *redistest.Sentinel
	former, heir  *redistest.Server
	ears          []*proxy.Proxy // between the first process and the Sentinels
	first, second *kit.Process
}

// face makes two processes before the fail-over; the first hears of it by links of its own.
func face(t *testing.T) *standoff {
	t.Helper()
	s := &standoff{sentinel: redistest.StartSentinel(t)}
	s.former, s.heir = s.sentinel.Data[0], s.sentinel.Data[1]
	by := make(map[string]string)
	for _, w := range s.sentinel.Sentinels {
		ear := proxy.Start(t, w.Addr())
		s.ears, by[w.Addr()] = append(s.ears, ear), ear.Addr()
	}
	option := s.sentinel.ClientOption()
	option.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer,
		_ *tls.Config,
	) (net.Conn, error) {
		if ear, ok := by[addr]; ok {
			addr = ear
		}
		return d.DialContext(ctx, "tcp", addr)
	}
	s.first = kit.Start(t, option, formerConfig, s.sentinel.Nodes()...)
	s.second = kit.Start(t, s.sentinel.ClientOption(), formerConfig, s.sentinel.Nodes()...)
	require.NoError(t, s.former.RefuseDemotion(true))
	return s
}

// deafen cuts the first process off from the Sentinels, or lets it hear them again.
func (s *standoff) deafen(on bool) {
	for _, ear := range s.ears {
		ear.Refuse(on)
		if on {
			ear.Reset()
		}
	}
}

// hears returns when a process's client goes to the new primary.
func (s *standoff) hears(t *testing.T, p *kit.Process) time.Time {
	t.Helper()
	require.Eventually(t, func() bool {
		return p.Client.Nodes()[s.heir.Addr()] != nil
	}, kit.Patience, time.Millisecond)
	return time.Now()
}

// leavesFormer reports whether a lease goes from the former primary, where none renews it once its
// holder's client was told. A heartbeat that was under way then may arrive a little later.
func (s *standoff) leavesFormer(t *testing.T, name string, told time.Time) bool {
	t.Helper()
	return kit.LapsesBy(t, s.former, name, told.Add(formerConfig.TTL+formerConfig.TTL/6))
}

// goesOn takes a new lease, which is had, renewed and released on the new primary only.
func (s *standoff) goesOn(t *testing.T) {
	t.Helper()
	kit.Do(t, s.former, "CONFIG", "RESETSTAT")
	lease := s.first.Acquire(t, "new")
	granted := kit.Look(t, s.heir, "new").Expires
	s.first.Beats.Confirmed(t, 2)
	assert.Greater(t, kit.Look(t, s.heir, "new").Expires, granted, "it is renewed there")
	assert.NoError(t, lease.Release(context.Background()))
	assert.Empty(t, kit.Look(t, s.heir, "new").Value)
	for _, command := range []string{"eval", "evalsha"} {
		calls, err := s.former.Calls(command)
		require.NoError(t, err)
		assert.Zero(t, calls, "%s on the former primary", command)
	}
}

// Heartbeats once had a connection of their own, which stayed with a former primary that could
// still be reached: a lease lived there for as long as that connection did, and another process had
// the lock on the new one.
func TestTheFormerPrimaryIsStillUp(t *testing.T) {
	t.Parallel()
	s := face(t)
	lease := s.first.Acquire(t, "lock")
	s.first.Beats.Confirmed(t, 3)
	require.NoError(t, s.sentinel.Failover())
	s.hears(t, s.second)
	told := s.hears(t, s.first)
	rival := s.second.Seek("lock")

	// The replica had the key, and both clients were told while it lived: the lease goes on there,
	// and nowhere else.
	assert.True(t, s.leavesFormer(t, "lock", told))
	wait(formerConfig.TTL / 2)
	assert.NotEmpty(t, kit.Look(t, s.heir, "lock").Value)
	assert.True(t, lease.Valid(), "the lease is renewed on the new primary")
	assert.Empty(t, rival, "two holders")
	freeing := time.Now()
	assert.NoError(t, lease.Release(context.Background()))
	next := <-rival
	require.NoError(t, next.Err)
	assert.Greater(t, next.At, freeing)
	assert.Greater(t, next.Lease.Fence(), lease.Fence())
	assert.NoError(t, next.Lease.Release(context.Background()))
	s.goesOn(t)
}

// What the test above judges by finds a store whose heartbeats stay with the former primary.
func TestHeartbeatsThatStayWithTheFormerPrimaryAreFound(t *testing.T) {
	t.Parallel()
	s := face(t)
	stuck := kit.Start(t, s.former.ClientOption(), formerConfig, s.former)
	owner := strings.Repeat("o", store.OwnerLen)
	kit.Gone(t, s.former, "lock")
	stuck.Store.Engine().Acquire(t.Context(),
		[]store.Claim{{Name: "lock", Owner: owner, TTL: formerConfig.TTL}})
	require.NoError(t, s.sentinel.Failover())
	told, over := s.hears(t, s.first), make(chan struct{})
	defer close(over)
	go func() {
		for ticks := time.NewTicker(formerConfig.Heartbeat); ; {
			select {
			case <-ticks.C:
				stuck.Store.Engine().Renew(context.Background(),
					[]store.Hold{{Name: "lock", Owner: owner, TTL: formerConfig.TTL}})
			case <-over:
				return
			}
		}
	}()
	assert.False(t, s.leavesFormer(t, "lock", told))
}

// A process whose client has not been told, since no Sentinel reaches it, can't know. From when it
// is told its belief lasts until its next heartbeat, and for one TTL at most.
func TestTheFormerPrimaryIsStillUpAndOneIsToldLate(t *testing.T) {
	t.Parallel()
	s := face(t)
	lease := s.first.Acquire(t, "lock")
	s.first.Beats.Confirmed(t, 3)
	s.deafen(true)
	require.NoError(t, s.sentinel.Failover())
	s.hears(t, s.second)
	// What the replica had of the lease lapses.
	rival := s.second.Acquire(t, "lock")
	assert.Greater(t, rival.Fence(), lease.Fence())
	s.first.Beats.Confirmed(t, 1)
	require.True(t, lease.Valid(), "it is renewed where its client takes the primary to be")
	require.NotEmpty(t, kit.Look(t, s.former, "lock").Value)

	s.deafen(false)
	told := s.hears(t, s.first)
	assert.Equal(t, renewer.ReasonTaken, kit.Lost(t, lease).Reason)
	assert.True(t, rival.Valid())
	require.ErrorIs(t, lease.Release(context.Background()), renewer.ErrLost)
	assert.True(t, s.leavesFormer(t, "lock", told))
	assert.NoError(t, rival.Release(context.Background()))
	s.goesOn(t)
}

// A former primary that wants a replica in order to write renews nothing once its replica has left
// it, or has fallen silent: belief there ends within a TTL, although the client is never told.
func TestTheFormerPrimaryWantsAReplica(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]bool{"that leaves": false, "that falls silent": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			former, heir := redistest.Start(t), redistest.Start(t)
			wire := followBy(t, heir, former)
			kit.Do(t, former, "CONFIG", "SET", "min-replicas-max-lag", "6")
			kit.Do(t, former, "CONFIG", "SET", "min-replicas-to-write", "1")
			first := kit.Start(t, former.ClientOption(), formerConfig, former) // no Sentinel reaches it
			lease := first.Acquire(t, "lock")
			first.Beats.Confirmed(t, 3)
			if silent {
				wire.Blackhole(proxy.Both)
			}
			kit.Do(t, heir, "REPLICAOF", "NO", "ONE")
			second := kit.Start(t, heir.ClientOption(), formerConfig, heir)
			rival := second.Acquire(t, "lock")
			assert.Greater(t, rival.Fence(), lease.Fence())
			lost := kit.Lost(t, lease)
			assert.Equal(t, renewer.ReasonExpired, lost.Reason)
			require.ErrorContains(t, lost.Err, "NOREPLICAS")
			require.ErrorIs(t, lease.Release(context.Background()), renewer.ErrLost)
			assert.NoError(t, rival.Release(context.Background()))
		})
	}
}

// followBy makes a server the replica of another, by a link that can be cut.
func followBy(t *testing.T, replica, primary *redistest.Server) *proxy.Proxy {
	t.Helper()
	link := proxy.Start(t, primary.Addr())
	host, port, _ := strings.Cut(link.Addr(), ":")
	kit.Do(t, replica, "REPLICAOF", host, port)
	require.Eventually(t, func() bool {
		n, err := primary.Do("WAIT", "1", "100").ToInt64()
		return err == nil && n == 1
	}, kit.Patience, 10*time.Millisecond)
	return link
}
