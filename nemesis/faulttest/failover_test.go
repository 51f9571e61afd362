//go:build unix

package faulttest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// A wide margin, since many servers share two cores with the keepers.
var failoverConfig = renewer.Config{
	TTL: 6 * time.Second, Heartbeat: time.Second, Margin: 1500 * time.Millisecond,
	Poll: time.Second,
}

// A fail-over in the middle of 200 held leases, for each of which a rival waits: each lease
// survives, with its key on the new primary, or its holder is told before the rival gets the lock.
func TestFailOver(t *testing.T) {
	t.Parallel()
	for name, strike := range map[string]func(t *testing.T, s *redistest.Sentinel,
		primary *redistest.Server){
		"of a primary that is frozen": func(t *testing.T, s *redistest.Sentinel,
			primary *redistest.Server,
		) {
			require.NoError(t, primary.Stop())
			require.NoError(t, s.Patience(false))
		},
		"of a primary that is killed": func(t *testing.T, s *redistest.Sentinel,
			primary *redistest.Server,
		) {
			primary.Kill()
			require.NoError(t, s.Patience(false))
		},
		"when the Sentinel that clients listen to is frozen": func(t *testing.T,
			s *redistest.Sentinel, primary *redistest.Server,
		) {
			require.NoError(t, s.Sentinels[0].Stop())
			primary.Kill()
			require.NoError(t, s.Patience(false))
		},
		"for no reason": func(t *testing.T, s *redistest.Sentinel, _ *redistest.Server) {
			require.NoError(t, s.Failover())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failOver(t, strike)
		})
	}
}

func failOver(
	t *testing.T, strike func(t *testing.T, s *redistest.Sentinel, primary *redistest.Server),
) {
	const n = 200
	sentinel := redistest.StartSentinel(t)
	old, err := sentinel.Primary()
	require.NoError(t, err)
	heir, err := sentinel.Replica()
	require.NoError(t, err)
	m := enlist(t, sentinel.ClientOption(), sentinel.Nodes(), failoverConfig)
	rival := enlist(t, sentinel.ClientOption(), sentinel.Nodes(), failoverConfig)

	leases := m.takeMany(t, n)
	told, next := make([]chan time.Time, n), make([]chan got, n)
	for i, l := range leases {
		told[i], next[i] = make(chan time.Time, 1), make(chan got, 1)
		context.AfterFunc(l.Context(), func() { told[i] <- time.Now() })
		go func() {
			l, err := rival.keeper.Acquire(context.Background(), l.Name(),
				renewer.MaxWait(6*patience))
			next[i] <- got{l, time.Now(), err}
		}()
	}
	pass(failoverConfig.Heartbeat)

	struck := time.Now()
	strike(t, sentinel, old)
	require.NoError(t, sentinel.AwaitPrimary(heir))
	t.Logf("failed over after %v", time.Since(struck))
	pass(failoverConfig.TTL)

	survived := 0
	for i, l := range leases {
		var at time.Time
		if l.Valid() {
			survived++
			assert.NotEmpty(t, mustLook(t, heir, l.Name()).value,
				"%s has its key on the new primary", l.Name())
			at = time.Now()
			assert.NoError(t, l.Release(context.Background()))
		} else {
			at = <-told[i]
			require.ErrorIs(t, l.Release(context.Background()), renewer.ErrLost)
		}
		g := <-next[i]
		require.NoError(t, g.err)
		assert.False(t, g.at.Before(at), "%s: two holders for %v", l.Name(), at.Sub(g.at))
		assert.Greater(t, g.lease.Fence(), l.Fence())
		assert.NoError(t, g.lease.Release(context.Background()))
	}
	t.Logf("%d of %d leases survived", survived, n)
}
