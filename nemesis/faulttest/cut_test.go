package faulttest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/nemesis/internal/kit"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

var (
	cutConfig   = renewer.Config{TTL: 5 * time.Second, Heartbeat: time.Second, Node: "victim"}
	rivalConfig = renewer.Config{TTL: renewer.DefaultTTL, Node: "rival"}
)

// victim is a lease that is cut off at a random moment, while another process waits for the lock.
type victim struct {
	*node
	name     string
	lease    *renewer.Lease
	rival    <-chan kit.Got
	owned    kit.Lock  // as the server knew it when it was cut off
	deadline time.Time // by which the victim believed in it then; zero if it did not any more
}

func seize(t *testing.T, n, rival *node, name string) *victim {
	t.Helper()
	v := &victim{node: n, name: name, lease: n.Acquire(t, name)}
	v.rival = rival.Seek(name)
	return v
}

// cutOff is called when no request of the victim reaches the server any more. What was under way by
// then can only make the key last longer than is noted here.
func (v *victim) cutOff(t *testing.T) {
	t.Helper()
	v.owned = kit.Look(t, v.server, v.name)
	now := time.Now()                          // before the question, so that the deadline is not later than it is
	if left := v.lease.Remaining(); left > 0 { // or a busy machine has kept the victim from renewing
		v.deadline = now.Add(left)
	}
}

// told waits for the victim to be told, and proves that its belief ended before its key could.
func (v *victim) told(t *testing.T) {
	t.Helper()
	lost := kit.Lost(t, v.lease)
	assert.Equal(t, renewer.ReasonExpired, lost.Reason)
	assert.True(t, v.deadline.IsZero() || v.deadline.Before(v.owned.Expires), "belief inside truth")
}

// inherit proves that the rival has the lock after that, with a higher token, and that the victim's
// late release leaves it alone.
func (v *victim) inherit(t *testing.T, reconnect func()) {
	t.Helper()
	heir := <-v.rival
	require.NoError(t, heir.Err)
	assert.Less(t, v.deadline, heir.At, "no two holders")
	assert.Greater(t, heir.Lease.Fence(), v.lease.Fence())
	before := kit.Look(t, v.server, v.name).Value
	reconnect()
	require.ErrorIs(t, v.lease.Release(t.Context()), renewer.ErrLost)
	assert.NotEmpty(t, before)
	assert.Equal(t, before, kit.Look(t, v.server, v.name).Value)
	assert.NoError(t, heir.Lease.Err(), "the rival is not disturbed")
	assert.NoError(t, heir.Lease.Release(t.Context()))
}

func TestLinkBlackholed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rival := join(t, server, rivalConfig)
	victims := make([]*victim, 30)
	for i := range victims {
		victims[i] = seize(t, join(t, server, cutConfig), rival, fmt.Sprint("hole ", i))
	}
	for i, v := range victims {
		wait(moment(80 * time.Millisecond))
		v.link.Blackhole([]proxy.Direction{proxy.Up, proxy.Down, proxy.Both}[i%3])
		v.cutOff(t)
	}
	for _, v := range victims {
		v.told(t)
	}
	for _, v := range victims {
		v.inherit(t, v.link.Heal)
	}
}

func TestServerFrozen(t *testing.T) {
	t.Parallel()
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			rival, link := join(t, server, rivalConfig), proxy.Start(t, server.Addr())
			victims := make([]*victim, 5)
			for i := range victims {
				victims[i] = seize(t, joinBy(t, server, link, cutConfig), rival, fmt.Sprint("frost ", i))
			}
			wait(moment(2 * cutConfig.Heartbeat))
			// Requests are held back for the moment in which the keys' expiry is read; they reach
			// the frozen server's socket.
			link.Blackhole(proxy.Up)
			latest := time.Now()
			for _, v := range victims {
				v.cutOff(t)
				if v.owned.Expires.After(latest) {
					latest = v.owned.Expires
				}
			}
			require.NoError(t, server.Stop())
			link.Heal()
			for _, v := range victims {
				v.told(t)
			}
			// Thawed any earlier, the server would find the renewals in its socket in time.
			wait(time.Until(latest) + kit.Rounded)
			require.NoError(t, server.Cont())
			for _, v := range victims {
				v.inherit(t, func() {})
			}
		})
	}
}
