package faulttest_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/nemesis/internal/kit"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// foreign is a value that no keeper has written.
const foreign = "another program's"

var takenConfig = renewer.Config{TTL: 9 * time.Second, Heartbeat: time.Second, Node: "victim"}

// A lease whose key is taken away is lost at the next heartbeat, which says what it has found
// there, and neither that heartbeat nor the late release touches it.
func TestKeyIsTakenAway(t *testing.T) {
	t.Parallel()
	self := store.Holder{Node: takenConfig.Node, PID: os.Getpid(), Operation: "report"}
	for name, c := range map[string]struct {
		take   func(t *testing.T, server *redistest.Server, other *node)
		found  string
		holder store.Holder
	}{
		"overwritten": {func(t *testing.T, server *redistest.Server, _ *node) {
			t.Helper()
			kit.Do(t, server, "SET", kit.Key("lock"), foreign, "PX", "60000")
		}, "overwritten", store.Holder{}},
		"deleted": {func(t *testing.T, server *redistest.Server, _ *node) {
			t.Helper()
			kit.Do(t, server, "DEL", kit.Key("lock"))
		}, "deleted", store.Holder{}},
		"deleted and taken": {func(t *testing.T, server *redistest.Server, other *node) {
			t.Helper()
			kit.Do(t, server, "DEL", kit.Key("lock"))
			next := other.AcquireAs(t, renewer.Request{Name: "lock", Operation: "report"})
			t.Cleanup(func() { assert.NoError(t, next.Release(t.Context()), "it is not disturbed") })
		}, "owner", self},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			n, other := join(t, server, takenConfig), join(t, server, takenConfig)
			lease := n.Acquire(t, "lock")
			n.Beats.Confirmed(t, 1)
			c.take(t, server, other)
			before := kit.Look(t, server, "lock")
			lost := kit.Lost(t, lease)
			assert.Equal(t, renewer.ReasonTaken, lost.Reason)
			assert.Equal(t, c.found, lost.Found)
			assert.Equal(t, c.holder, lost.Holder)
			assert.Zero(t, lost.Left, "no notice can be given of what has happened already")
			require.ErrorIs(t, lease.Release(t.Context()), renewer.ErrLost)
			after := kit.Look(t, server, "lock")
			assert.Equal(t, before.Value, after.Value)
			if name == "overwritten" {
				assert.WithinDuration(t, before.Expires, after.Expires, kit.Rounded)
			}
		})
	}
}

// A key whose TTL was taken away has it again with the next heartbeat: it must not outlive its
// holder.
func TestKeyWithoutTTL(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := join(t, server, takenConfig)
	lease := n.Acquire(t, "lock")
	n.Beats.Confirmed(t, 1)
	kit.Do(t, server, "PERSIST", kit.Key("lock"))
	n.Beats.Confirmed(t, 2)
	left, err := server.Do("PTTL", kit.Key("lock")).AsInt64()
	require.NoError(t, err)
	assert.Positive(t, left)
	require.NoError(t, lease.Release(t.Context()))
}
