//go:build unix

package faulttest_test

import (
	"bytes"
	"fmt"
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
	pulse := feel(t, 10*time.Millisecond, n.server)
	for range 5 { // the first time with scripts that the server does not know yet
		var took time.Duration
		pulse.fairly(func(int) bool {
			begun := time.Now()
			lease := n.acquire(t, "lock")
			took = time.Since(begun)
			require.NoError(t, lease.Release(t.Context()))
			return took < 200*time.Millisecond
		})
		assert.Greater(t, took, 30*time.Millisecond, "the link is as slow as the test says")
		assert.Less(t, took, 200*time.Millisecond)
	}
}

func TestServerDownAtTheCall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := join(t, server, renewer.Config{TTL: renewer.DefaultTTL})
	n.warm(t)
	server.Kill()
	got := n.seek(t.Context(), "lock", renewer.MaxWait(patience))
	pass(2 * time.Second)
	require.Empty(t, got, "it waits for the server")
	require.NoError(t, server.Restart())
	back := time.Now()
	g := <-got
	require.NoError(t, g.err)
	assert.Less(t, g.at.Sub(back), 3*time.Second)
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
	assert.Less(t, time.Since(begun), patience/2)
	require.ErrorIs(t, err, renewer.ErrUnavailable)
	require.NotErrorIs(t, err, renewer.ErrHeld)
	require.NoError(t, server.Restart())
}

// message tells what is published from confirmations of the subscription.
func message(push []byte) bool {
	return bytes.Contains(push, []byte("\r\nmessage\r\n")) &&
		(bytes.Contains(push, []byte(":freed")) || bytes.Contains(push, []byte(":inbox")))
}

// deaf makes a node that no published wake-up reaches, and whose poll comes too late to help.
func deaf(t *testing.T, server *redistest.Server) *node {
	t.Helper()
	n := join(t, server, renewer.Config{TTL: renewer.DefaultTTL, Poll: time.Minute})
	n.warm(t)
	n.link.DropMatching(message)
	return n
}

// takenAtExpiry begins to wait for a lock, of a name of its own each
// time, and requires that it comes with the end of the TTL.
func takenAtExpiry(
	t *testing.T, pulse *pulse, begin func(name string) (waiter <-chan got, expires time.Time),
) {
	t.Helper()
	takenBetween(t, pulse, -time.Millisecond, begin)
}

// takenBetween is takenAtExpiry where the lock may come from first on, by the end of the TTL.
func takenBetween(
	t *testing.T, pulse *pulse, first time.Duration,
	begin func(name string) (waiter <-chan got, expires time.Time),
) {
	t.Helper()
	var late time.Duration
	pulse.fairly(func(try int) bool {
		waiter, expires := begin(fmt.Sprint("lock", try))
		g := <-waiter
		require.NoError(t, g.err)
		require.NoError(t, g.lease.Release(t.Context()))
		late = g.at.Sub(expires)
		t.Logf("taken %v after the TTL had ended", late)
		return first <= late && late < afterExpiry
	})
	assert.GreaterOrEqual(t, late, first)
	assert.Less(t, late, afterExpiry)
}

func TestNoWakeUpForeignKey(t *testing.T) { //nolint:paralleltest // it measures 50 ms
	server := redistest.Start(t)
	n := deaf(t, server)
	takenAtExpiry(t, feel(t, afterExpiry/5, server), func(name string) (<-chan got, time.Time) {
		mustDo(t, server, "SET", key(name), foreign, "PX", "700")
		held := mustLook(t, server, name)
		return n.seek(t.Context(), name, renewer.MaxWait(patience)), held.expires
	})
}

func TestNoWakeUpHolderCutOff(t *testing.T) { //nolint:paralleltest // it measures 50 ms
	server := redistest.Start(t)
	n, holder := deaf(t, server), join(t, server, renewer.Config{TTL: 2 * time.Second})
	takenAtExpiry(t, feel(t, afterExpiry/5, server), func(name string) (<-chan got, time.Time) {
		holder.link.Heal()
		lease := holder.acquire(t, name)
		waiter := n.seek(t.Context(), name, renewer.MaxWait(patience))
		holder.beats.confirmed(t, 1)
		holder.link.Blackhole(proxy.Both)
		left := mustLook(t, server, name)
		assert.Equal(t, renewer.ReasonExpired, ended(t, lease).Reason)
		require.ErrorIs(t, lease.Release(t.Context()), renewer.ErrLost)
		return waiter, left.expires
	})
}

// The lock is released and the message about it dropped: the waiter comes at the time at which, when
// it last looked, the TTL was to end; or before, since one that has waited for a second asks once.
func TestNoWakeUpHolderReleases(t *testing.T) { //nolint:paralleltest // it measures 50 ms
	server := redistest.Start(t)
	n, holder := deaf(t, server), join(t, server, renewer.Config{TTL: 3 * time.Second})
	pulse := feel(t, afterExpiry/5, server)
	takenBetween(t, pulse, -3*time.Second, func(name string) (<-chan got, time.Time) {
		lease := holder.acquire(t, name)
		holder.beats.confirmed(t, 1) // the next is half a heartbeat away at least
		waiter := n.seek(t.Context(), name, renewer.MaxWait(patience))
		require.Eventually(t, func() bool {
			return inLine(server, name) == 1
		}, patience, time.Millisecond)
		pass(50 * time.Millisecond) // the confirmation wakes it once
		dropped := n.link.Dropped()
		before := mustLook(t, server, name)
		require.NoError(t, lease.Release(t.Context()))
		require.Eventually(t, func() bool {
			return n.link.Dropped() == dropped+1
		}, patience, time.Millisecond)
		require.NotEqual(t, before.value, mustLook(t, server, name).value,
			"given to the waiter, for a second in which it does not come")
		if len(holder.beats.all) > 0 { // late as it was, it has moved the expiry
			pulse.book(holder.keeper.Config().Heartbeat / 2)
		}
		return waiter, before.expires
	})
}

// inLine counts the places in a lock's line.
func inLine(server *redistest.Server, name string) int64 {
	count, err := server.Do("ZCARD", key(name)+":waiters").AsInt64()
	if err != nil {
		return -1
	}
	return count
}
