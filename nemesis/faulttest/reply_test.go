package faulttest_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/nemesis/internal/kit"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// replyConfig has a TTL above kit.Patience: what is gone before has been freed. With that TTL the
// client takes 17 s to give a connection up that has gone silent.
var replyConfig = renewer.Config{
	TTL: time.Minute, RequestTimeout: time.Second, FailOver: kit.Patience,
}

// about tells requests that concern a lock from others, for a proxy.
func about(name string) func([]byte) bool {
	return func(request []byte) bool { return bytes.Contains(request, []byte(kit.Key(name))) }
}

// The server has granted the lock, and its reply is lost. A caller who waits asks again by the same
// token, and has it. One who asks once gets an error, and the key is freed.
func TestReplyLostToAWaitingCaller(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]proxy.Then{
		"then reset": proxy.ThenReset, "then silence": proxy.ThenMute,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := join(t, redistest.Start(t), replyConfig)
			n.link.DropReplyTo(about("lock"), 1, then)
			got := n.Seek("lock")
			var granted kit.Lock
			require.Eventually(t, func() bool {
				granted = kit.Look(t, n.server, "lock")
				return granted.Value != ""
			}, kit.Patience, time.Millisecond)
			g := <-got
			require.NoError(t, g.Err)
			assert.Equal(t, 1, n.link.Dropped())
			assert.Equal(t, granted.Value, kit.Look(t, n.server, "lock").Value,
				"it is the grant that was not heard of")
			require.NoError(t, g.Lease.Release(t.Context()))
			assert.Empty(t, kit.Look(t, n.server, "lock").Value)

			n.link.DropReplyTo(about("once"), 1, then)
			_, err := n.Keeper.Acquire(t.Context(), renewer.Request{Name: "once", Try: true})
			require.ErrorIs(t, err, renewer.ErrUnavailable)
			require.NotErrorIs(t, err, renewer.ErrBusy)
			assert.Equal(t, 2, n.link.Dropped())
			kit.Gone(t, n.server, "once")
		})
	}
}

// The request itself was held back: when the link heals it takes effect after all, and what it
// takes is freed.
func TestRequestArrivesAfterItsCallerHasGone(t *testing.T) {
	t.Parallel()
	n := join(t, redistest.Start(t), replyConfig)
	require.NoError(t, n.Acquire(t, "warm-up").Release(t.Context())) // the server knows the scripts
	before, err := n.server.Calls("set")
	require.NoError(t, err)
	n.link.Blackhole(proxy.Up)
	_, err = n.Keeper.Acquire(t.Context(), renewer.Request{Name: "lock", Try: true})
	require.ErrorIs(t, err, renewer.ErrUnavailable)
	require.Empty(t, kit.Look(t, n.server, "lock").Value)
	n.link.Heal()
	require.Eventually(t, func() bool {
		sets, err := n.server.Calls("set")
		return err == nil && sets > before
	}, kit.Patience, time.Millisecond, "the late request arrives")
	kit.Gone(t, n.server, "lock")
}
