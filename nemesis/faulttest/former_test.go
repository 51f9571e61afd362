//go:build unix

package faulttest_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/proxy"
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
	first, second *member
	beats         *beats // of the first
}

// face makes two processes before the fail-over; the first hears of it by links of its own.
func face(t *testing.T) *standoff {
	t.Helper()
	s := &standoff{sentinel: redistest.StartSentinel(t), beats: newBeats()}
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
	cfg := formerConfig
	cfg.Observer = s.beats
	s.first = enlist(t, option, s.sentinel.Nodes(), cfg)
	s.second = enlist(t, s.sentinel.ClientOption(), s.sentinel.Nodes(), formerConfig)
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
func (s *standoff) hears(t *testing.T, m *member) time.Time {
	t.Helper()
	require.Eventually(t, func() bool {
		return m.client.Nodes()[s.heir.Addr()] != nil
	}, patience, time.Millisecond)
	return time.Now()
}

// livesOn reports whether a lock's key is on a server.
func livesOn(t *testing.T, server *redistest.Server, name string) bool {
	t.Helper()
	return mustLook(t, server, name).value != ""
}

// Heartbeats once had a connection of their own, which stayed with a former primary that could
// still be reached: a lease lived there for as long as that connection did, and another process had
// the lock on the new one.
func TestTheFormerPrimaryIsStillUp(t *testing.T) {
	t.Parallel()
	s := face(t)
	lease := acquireOf(t, s.first, "lock")
	s.beats.confirmed(t, 3)
	require.NoError(t, s.sentinel.Failover())
	s.hears(t, s.second)
	told := s.hears(t, s.first)
	rival := make(chan got, 1)
	go func() {
		l, err := s.second.keeper.Acquire(context.Background(), "lock", renewer.MaxWait(6*patience))
		rival <- got{l, time.Now(), err}
	}()

	// The replica had the key, and both clients were told while it lived: the lease goes on there,
	// and nowhere else.
	s.leavesFormer(t, "lock", told)
	pass(formerConfig.TTL / 2)
	assert.True(t, livesOn(t, s.heir, "lock"))
	assert.True(t, lease.Valid(), "the lease is renewed on the new primary")
	assert.Empty(t, rival, "two holders")
	freeing := time.Now()
	assert.NoError(t, lease.Release(context.Background()))
	next := <-rival
	require.NoError(t, next.err)
	assert.True(t, next.at.After(freeing))
	assert.Greater(t, next.lease.Fence(), lease.Fence())
	assert.NoError(t, next.lease.Release(context.Background()))
	s.goesOn(t)
}

// A process whose client has not been told, since no Sentinel reaches it, can't know. From when it
// is told its belief lasts until its next heartbeat, and for one TTL at most.
func TestTheFormerPrimaryIsStillUpAndOneIsToldLate(t *testing.T) {
	t.Parallel()
	s := face(t)
	lease := acquireOf(t, s.first, "lock")
	s.beats.confirmed(t, 3)
	s.deafen(true)
	require.NoError(t, s.sentinel.Failover())
	s.hears(t, s.second)
	// What the replica had of the lease lapses.
	rival, err := s.second.keeper.Acquire(context.Background(), "lock", renewer.MaxWait(patience))
	require.NoError(t, err)
	assert.Greater(t, rival.Fence(), lease.Fence())
	s.beats.confirmed(t, 1)
	require.True(t, lease.Valid(), "it is renewed where its client takes the primary to be")
	require.True(t, livesOn(t, s.former, "lock"))

	s.deafen(false)
	told := s.hears(t, s.first)
	lost := ended(t, lease)
	after := time.Since(told)
	t.Logf("two holders for %v after the first one's client was told", after)
	assert.Less(t, after, formerConfig.TTL)
	assert.Equal(t, renewer.ReasonTaken, lost.Reason)
	assert.True(t, rival.Valid())
	require.ErrorIs(t, lease.Release(context.Background()), renewer.ErrLost)
	s.leavesFormer(t, "lock", told)
	assert.NoError(t, rival.Release(context.Background()))
	s.goesOn(t)
}

// A former primary that wants a replica in order to write renews nothing once its replica has left
// it: belief there ends within a TTL, although the client is never told.
func TestTheFormerPrimaryIsStillUpAndWantsAReplica(t *testing.T) {
	t.Parallel()
	s := face(t)
	require.NoError(t, s.former.Do("CONFIG", "SET", "min-replicas-to-write", "1").Error())
	lease := acquireOf(t, s.first, "lock")
	s.beats.confirmed(t, 3)
	s.deafen(true)
	require.NoError(t, s.sentinel.Failover())
	promoted := time.Now()
	lost := ended(t, lease) // perhaps while the fail-over was waited for
	assert.Equal(t, renewer.ReasonExpired, lost.Reason)
	assert.ErrorContains(t, lost.Err, "NOREPLICAS")
	assert.Less(t, time.Since(promoted), formerConfig.TTL)
	assert.NotNil(t, s.first.client.Nodes()[s.former.Addr()], "nobody has told its client")
	require.ErrorIs(t, lease.Release(context.Background()), renewer.ErrLost)
	s.deafen(false)
	s.hears(t, s.first)
	s.goesOn(t)
}

// leavesFormer sees a lease go from the former primary, where none renews it once its holder's
// client was told. A heartbeat that was under way at that instant may arrive a little later.
func (s *standoff) leavesFormer(t *testing.T, name string, told time.Time) {
	t.Helper()
	lapses(t, s.former, name, told.Add(formerConfig.TTL+formerConfig.TTL/6))
}

// goesOn takes new leases, which are had, renewed and released on the new primary only.
func (s *standoff) goesOn(t *testing.T) {
	t.Helper()
	require.NoError(t, s.former.Do("CONFIG", "RESETSTAT").Error())
	for i := range 3 {
		name := fmt.Sprint("new ", i)
		lease := acquireOf(t, s.first, name)
		assert.True(t, livesOn(t, s.heir, name))
		granted := mustLook(t, s.heir, name).expires
		s.beats.confirmed(t, 2)
		assert.True(t, mustLook(t, s.heir, name).expires.After(granted), "it is renewed there")
		assert.NoError(t, lease.Release(context.Background()))
		assert.False(t, livesOn(t, s.heir, name))
	}
	for _, command := range []string{"eval", "evalsha"} {
		calls, err := s.former.Calls(command)
		require.NoError(t, err)
		assert.Zero(t, calls, "%s on the former primary", command)
	}
}

func acquireOf(t *testing.T, m *member, name string) *renewer.Lease {
	t.Helper()
	lease, err := m.keeper.Acquire(context.Background(), name, renewer.MaxWait(patience))
	require.NoError(t, err)
	return lease
}
