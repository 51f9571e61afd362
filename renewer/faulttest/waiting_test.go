//go:build unix

package faulttest_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/proxy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// afterExpiry is how soon after a key's TTL has ended a waiter has it, without anybody telling it.
const afterExpiry = 50 * time.Millisecond

func TestFreeLockFarAway(t *testing.T) { //nolint:paralleltest // it measures 200 ms
	n := join(t, redistest.Start(t), renewer.Config{TTL: renewer.DefaultTTL})
	n.link.Delay(15 * time.Millisecond)
	for range 5 { // the first time with scripts that the server does not know yet
		begun := time.Now()
		lease := n.acquire(t, "lock")
		took := time.Since(begun)
		assert.Greater(t, took, 30*time.Millisecond, "the link is as slow as the test says")
		assert.Less(t, took, 200*time.Millisecond)
		require.NoError(t, lease.Release(t.Context()))
	}
}

func TestServerDownAtTheCall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := join(t, server, renewer.Config{TTL: renewer.DefaultTTL})
	n.warm(t)
	server.Kill()
	begun := time.Now()
	got := n.seek(t.Context(), "lock", renewer.MaxWait(patience))
	pass(2 * time.Second)
	require.Empty(t, got, "it waits for the server")
	require.NoError(t, server.Restart())
	g := <-got
	require.NoError(t, g.err)
	assert.Less(t, g.at.Sub(begun), 3*time.Second)
	require.NoError(t, g.lease.Release(t.Context()))
}

// A bound that ends before the server is back is kept, and blames the server.
func TestServerDownForLongerThanTheBound(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := join(t, server, renewer.Config{TTL: renewer.DefaultTTL})
	n.warm(t)
	server.Kill()
	begun := time.Now()
	_, err := n.keeper.Acquire(t.Context(), "lock", renewer.MaxWait(500*time.Millisecond))
	assert.Less(t, time.Since(begun), time.Second+busy)
	require.ErrorIs(t, err, renewer.ErrUnavailable)
	require.NotErrorIs(t, err, renewer.ErrHeld)
	require.NoError(t, server.Restart())
}

// message tells what is published from confirmations of the subscription.
func message(push []byte) bool {
	return bytes.Contains(push, []byte("\r\nmessage\r\n")) && bytes.Contains(push, []byte(":freed"))
}

// deaf makes a node that no published wake-up reaches, and whose poll comes too late to help.
func deaf(t *testing.T, server *redistest.Server) *node {
	t.Helper()
	n := join(t, server, renewer.Config{TTL: 2 * time.Second, Poll: time.Minute})
	n.warm(t)
	n.link.DropMatching(message)
	return n
}

// takenAtExpiry waits for the lock and requires that it came with the end of the TTL.
func takenAtExpiry(t *testing.T, got <-chan got, expires time.Time) {
	t.Helper()
	g := <-got
	require.NoError(t, g.err)
	late := g.at.Sub(expires)
	t.Logf("taken %v after the TTL had ended", late)
	assert.GreaterOrEqual(t, late, -time.Millisecond)
	assert.Less(t, late, afterExpiry)
	require.NoError(t, g.lease.Release(t.Context()))
}

func TestNoWakeUpForeignKey(t *testing.T) { //nolint:paralleltest // it measures 50 ms
	server := redistest.Start(t)
	n := deaf(t, server)
	mustDo(t, server, "SET", key("lock"), foreign, "PX", "700")
	held := mustLook(t, server, "lock")
	takenAtExpiry(t, n.seek(t.Context(), "lock", renewer.MaxWait(patience)), held.expires)
}

func TestNoWakeUpHolderCutOff(t *testing.T) { //nolint:paralleltest // it measures 50 ms
	server := redistest.Start(t)
	n, holder := deaf(t, server), join(t, server, renewer.Config{TTL: 2 * time.Second})
	lease := holder.acquire(t, "lock")
	got := n.seek(t.Context(), "lock", renewer.MaxWait(patience))
	holder.beats.confirmed(t, 1)
	holder.link.Blackhole(proxy.Both)
	left := mustLook(t, server, "lock")
	takenAtExpiry(t, got, left.expires)
	require.ErrorIs(t, lease.Release(t.Context()), renewer.ErrLost)
}

// The lock is released and the message about it dropped: the waiter comes at the time at which, when it last looked, the TTL
// was to end.
func TestNoWakeUpHolderReleases(t *testing.T) { //nolint:paralleltest // it measures 50 ms
	server := redistest.Start(t)
	n, holder := deaf(t, server), join(t, server, renewer.Config{TTL: 2 * time.Second})
	lease := holder.acquire(t, "lock")
	latest := mustLook(t, server, "lock").expires
	got := n.seek(t.Context(), "lock", renewer.MaxWait(patience))
	require.Eventually(t, func() bool {
		waiting, err := server.Do("PUBSUB", "NUMSUB", key("lock")+":freed").ToArray()
		if err != nil || len(waiting) != 2 {
			return false
		}
		count, err := waiting[1].AsInt64()
		return err == nil && count == 1
	}, patience, time.Millisecond)
	pass(50 * time.Millisecond) // the confirmation wakes it once
	require.NoError(t, lease.Release(t.Context()))
	require.Eventually(t, func() bool { return n.link.Dropped() == 1 }, patience, time.Millisecond)
	require.Empty(t, mustLook(t, server, "lock").value)
	takenAtExpiry(t, got, latest)
}
