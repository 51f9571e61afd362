//go:build unix

package faulttest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/proxy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// soon is how long a key may be left behind by an acquire that came
// to nothing, on a link that works.
const soon = 100 * time.Millisecond

var orphanConfig = renewer.Config{
	TTL: 9 * time.Second, RequestTimeout: time.Second,
	Node: "absent-minded",
}

func fates() map[string]proxy.Then {
	return map[string]proxy.Then{"then reset": proxy.ThenReset, "then silence": proxy.ThenMute}
}

// The server has granted the lock, but nobody hears of it. A caller
// who waits asks again by the same token, and has it.
func TestReplyLostToAWaitingCaller(t *testing.T) {
	t.Parallel()
	for name, then := range fates() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := join(t, redistest.Start(t), orphanConfig)
			n.warm(t)
			n.link.DropReplyTo(about("lock"), 1, then)
			got := n.seek(t.Context(), "lock", renewer.MaxWait(patience))
			granted := presentSoon(t, n.server, "lock")
			g := <-got
			require.NoError(t, g.err)
			lease := g.lease
			assert.Equal(t, 1, n.link.Dropped())
			assert.Equal(t, granted.value, mustLook(t, n.server, "lock").value,
				"it is the grant that nobody heard of")
			n.beats.confirmed(t, 1)
			require.NoError(t, lease.Context().Err(), "the lease is a good one")
			require.NoError(t, lease.Release(t.Context()))
			assert.Empty(t, mustLook(t, n.server, "lock").value)
		})
	}
}

// A caller who asks only once gets an error, and then the key must not stay.
func TestReplyLostToACallerWhoTriesOnce(t *testing.T) { //nolint:paralleltest // it measures 100 ms
	for name, then := range fates() { //nolint:paralleltest // as above
		t.Run(name, func(t *testing.T) {
			n := join(t, redistest.Start(t), orphanConfig)
			goneSoon(t, n.server, func(lock string) time.Time {
				n.warm(t) // again after a void trial: on a connection that works
				dropped := n.link.Dropped()
				n.link.DropReplyTo(about(lock), 1, then)
				_, err := n.keeper.TryAcquire(t.Context(), lock)
				returned := time.Now()
				require.ErrorIs(t, err, renewer.ErrUnavailable)
				require.NotErrorIs(t, err, renewer.ErrHeld)
				require.Eventually(t, func() bool { // the server may have been late
					return n.link.Dropped() == dropped+1
				}, patience, time.Millisecond)
				return returned
			})
		})
	}
}

func TestCallerCancelledInFlight(t *testing.T) { //nolint:paralleltest // it measures 100 ms
	n := join(t, redistest.Start(t), orphanConfig)
	n.warm(t)
	n.link.Delay(20 * time.Millisecond) // so that there is a flight
	for range 5 {
		goneSoon(t, n.server, func(lock string) time.Time {
			for {
				ctx, cancel := context.WithCancel(t.Context())
				got := n.seek(ctx, lock)
				presentSoon(t, n.server, lock)
				cancel() // the grant is on its way back
				g := <-got
				if g.err == nil { // unless this came too late
					require.NoError(t, g.lease.Release(t.Context()))
					continue
				}
				require.ErrorIs(t, g.err, context.Canceled)
				require.NotErrorIs(t, g.err, renewer.ErrUnavailable)
				return g.at
			}
		})
	}
}

// With the link down nobody can free the key: it goes with its TTL,
// and what was held back changes nothing when it arrives.
func TestCallerCancelledInFlightAsTheLinkGoesDown(t *testing.T) {
	t.Parallel()
	n := join(t, redistest.Start(t), renewer.Config{TTL: 3 * time.Second})
	n.warm(t)
	n.link.Blackhole(proxy.Down)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := n.seek(ctx, "lock")
	left := presentSoon(t, n.server, "lock")
	n.link.Blackhole(proxy.Both)
	cancel()
	g := <-got
	require.ErrorIs(t, g.err, context.Canceled)
	require.Less(t, g.at.Sub(left.expires), time.Duration(0),
		"the caller does not wait for the link")
	left = mustLook(t, n.server, "lock")
	assert.NotEmpty(t, left.value, "nobody can free it")
	lapses(t, n.server, "lock", left.expires.Add(rounded))
	n.link.Heal()
	later := n.acquire(t, "elsewhere") // what was held back has arrived before this
	require.Empty(t, mustLook(t, n.server, "lock").value, "a request that came late left a key")
	require.NoError(t, later.Release(t.Context()))
}

// The request itself was held back: when the link heals it takes
// effect after all, and what it takes must be freed.
//
//nolint:paralleltest // it measures 100 ms
func TestRequestArrivesAfterItsCallerHasGone(t *testing.T) {
	n := join(t, redistest.Start(t), orphanConfig)
	goneSoon(t, n.server, func(lock string) time.Time {
		n.warm(t)
		before, err := n.server.Calls("set")
		require.NoError(t, err)
		n.link.Blackhole(proxy.Up)
		_, err = n.keeper.TryAcquire(t.Context(), lock)
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		require.Empty(t, mustLook(t, n.server, lock).value)
		n.link.Heal()
		healed := time.Now()
		require.Eventually(t, func() bool {
			sets, err := n.server.Calls("set")
			return err == nil && sets > before
		}, patience, time.Millisecond, "the late request never arrived")
		return healed
	})
}

// goneSoon holds a trial that may leave the key of a lock behind, and
// requires that it has gone soon after.
func goneSoon(t *testing.T, server *redistest.Server, trial func(lock string) (since time.Time)) {
	t.Helper()
	var took time.Duration
	feel(t, soon/10, server).fairly(func(try int) bool {
		lock := fmt.Sprint("lock", try)
		took = gone(t, server, lock, trial(lock))
		return took < soon
	})
	assert.Less(t, took, soon)
}
