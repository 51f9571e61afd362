//go:build unix

package faulttest_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// foreign is a value that no keeper has written.
const foreign = "somebody else's"

var usurpConfig = renewer.Config{TTL: 9 * time.Second, Heartbeat: 3 * time.Second, Node: "usurped"}

// busy is what a busy machine may add to what should happen at once.
const busy = 2500 * time.Millisecond

func TestKeyOverwritten(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := join(t, server, usurpConfig)
	lease := n.acquire(t, "lock")
	n.beats.confirmed(t, 1)

	mustDo(t, server, "SET", key("lock"), foreign, "PX", "60000")
	struck := time.Now()
	before := mustLook(t, server, "lock")
	lost := ended(t, lease)
	assert.Less(t, time.Since(struck), usurpConfig.Heartbeat+busy, "within one heartbeat")
	assert.Equal(t, renewer.ReasonTaken, lost.Reason)
	assert.Equal(t, "taken", lost.Reason.String())
	assert.Equal(t, renewer.FoundOverwritten, lost.Found)
	assert.Zero(t, lost.Holder)
	assert.Zero(t, lost.Left, "no notice can be given of what has happened already")

	require.ErrorIs(t, lease.Release(t.Context()), renewer.ErrLost)
	after := mustLook(t, server, "lock")
	assert.Equal(t, foreign, after.value, "the successor's key survives the release")
	assert.WithinDuration(t, before.expires, after.expires, rounded, "and so does its TTL")
}

func TestKeyDeleted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := join(t, server, usurpConfig)
	lease := n.acquire(t, "lock")
	n.beats.confirmed(t, 1)

	mustDo(t, server, "DEL", key("lock"))
	struck := time.Now()
	lost := ended(t, lease)
	assert.Less(t, time.Since(struck), usurpConfig.Heartbeat+busy, "within one heartbeat")
	assert.Equal(t, renewer.ReasonTaken, lost.Reason)
	assert.Equal(t, renewer.FoundDeleted, lost.Found)
	assert.Empty(t, mustLook(t, server, "lock").value, "a renewal never creates a key")
	require.ErrorIs(t, lease.Release(t.Context()), renewer.ErrLost)
	assert.Empty(t, mustLook(t, server, "lock").value)
}

// The successor is a lease like any other, taken the moment after the key was deleted.
func TestKeyDeletedAndTaken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n, successor := join(t, server, usurpConfig), join(t, server, usurpConfig)
	lease := n.acquire(t, "lock")
	n.beats.confirmed(t, 1)

	mustDo(t, server, "DEL", key("lock"))
	struck := time.Now()
	next := successor.acquire(t, "lock", renewer.Operation("report"))
	assert.Greater(t, next.Fence(), lease.Fence())
	lost := ended(t, lease)
	assert.Less(t, time.Since(struck), usurpConfig.Heartbeat+busy, "within one heartbeat")
	assert.Equal(t, renewer.ReasonTaken, lost.Reason)
	assert.Equal(t, renewer.FoundOwner, lost.Found)
	assert.Equal(t, renewer.Holder{
		Node: usurpConfig.Node, PID: os.Getpid(), Operation: "report",
	}, lost.Holder, "who")
	require.ErrorIs(t, lease.Release(t.Context()), renewer.ErrLost)

	successor.beats.confirmed(t, 1)
	require.NoError(t, next.Context().Err(), "the successor is not disturbed")
	assert.Contains(t, mustLook(t, server, "lock").value, strconv.FormatInt(next.Fence(), 10))
	require.NoError(t, next.Release(t.Context()))
}

// Released in the time between the loss and the heartbeat that would have told of it.
func TestReleaseAfterAnUnnoticedLoss(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := join(t, server, renewer.Config{TTL: renewer.DefaultTTL})
	lease := n.acquire(t, "lock")
	mustDo(t, server, "SET", key("lock"), foreign, "PX", "60000")
	before := mustLook(t, server, "lock")
	err := lease.Release(t.Context())
	var lost *renewer.LostError
	require.ErrorAs(t, err, &lost)
	assert.Equal(t, renewer.ReasonTaken, lost.Reason)
	assert.Equal(t, renewer.FoundOverwritten, lost.Found)
	after := mustLook(t, server, "lock")
	assert.Equal(t, foreign, after.value)
	assert.WithinDuration(t, before.expires, after.expires, rounded)
}

// A key whose TTL was taken away has it again with the next
// heartbeat: it must not outlive its holder.
func TestKeyWithoutTTL(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := join(t, server, usurpConfig)
	lease := n.acquire(t, "lock")
	n.beats.confirmed(t, 1)
	mustDo(t, server, "PERSIST", key("lock"))
	n.beats.confirmed(t, 2)
	left, err := server.Do("PTTL", key("lock")).AsInt64()
	require.NoError(t, err)
	assert.Positive(t, left)
	require.NoError(t, lease.Release(t.Context()))
}
