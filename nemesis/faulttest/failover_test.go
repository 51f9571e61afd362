package faulttest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/nemesis/internal/kit"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// A wide margin, since many servers share two cores with the keepers.
var failoverConfig = renewer.Config{
	TTL: 6 * time.Second, Heartbeat: time.Second, Margin: 1500 * time.Millisecond,
	Poll:     time.Second,
	FailOver: time.Minute, // Sentinels that vote for three of them vote again after 3 s or more
}

// A fail-over in the middle of many held leases, for each of which a rival waits: each lease
// survives, with its key on the new primary, or its holder is told before the rival gets the lock.
func TestFailOver(t *testing.T) {
	t.Parallel()
	for name, strike := range map[string]func(t *testing.T, primary *redistest.Server){
		"frozen": func(t *testing.T, primary *redistest.Server) {
			t.Helper()
			require.NoError(t, primary.Stop())
		},
		"killed": func(_ *testing.T, primary *redistest.Server) { primary.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sentinel := redistest.StartSentinel(t)
			old, err := sentinel.Primary()
			require.NoError(t, err)
			heir, err := sentinel.Replica()
			require.NoError(t, err)
			p := kit.Start(t, sentinel.ClientOption(), failoverConfig, sentinel.Nodes()...)
			rival := kit.Start(t, sentinel.ClientOption(), failoverConfig, sentinel.Nodes()...)
			var leases [50]*renewer.Lease
			var told [50]chan time.Time
			var next [50]<-chan kit.Got
			for i := range leases {
				leases[i] = p.Acquire(t, fmt.Sprint("lock ", i))
				told[i] = make(chan time.Time, 1)
				context.AfterFunc(leases[i].Context(), func() { told[i] <- time.Now() })
				next[i] = rival.Seek(leases[i].Name())
			}
			p.Beats.Confirmed(t, 1)
			strike(t, old)
			require.NoError(t, sentinel.Patience(false))
			require.NoError(t, sentinel.AwaitPrimary(heir))
			wait(failoverConfig.TTL)

			for i, l := range leases {
				var over time.Time
				if l.Valid() {
					assert.NotEmpty(t, kit.Look(t, heir, l.Name()).Value,
						"%s has its key on the new primary", l.Name())
					over = time.Now()
					assert.NoError(t, l.Release(context.Background()))
				} else {
					over = <-told[i]
					require.ErrorIs(t, l.Release(context.Background()), renewer.ErrLost)
				}
				g := <-next[i]
				require.NoError(t, g.Err)
				assert.False(t, g.At.Before(over), "%s: two holders for %v", l.Name(), over.Sub(g.At))
				assert.Greater(t, g.Lease.Fence(), l.Fence())
				assert.NoError(t, g.Lease.Release(context.Background()))
			}
		})
	}
}
