package renewer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A few leases share their heartbeats: about eight an interval, and
// none of them is renewed more often or less.
func TestFewLeasesShareHeartbeats(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		const n, intervals = 60, 20
		leases := make([]*renewer.Lease, n)
		for i := range leases {
			leases[i] = acquire(t, k, fmt.Sprint(i))
		}
		waitFor(2 * config.Heartbeat) // everyone's first, and they find together
		from := len(s.Calls(script.Renew))
		waitFor(intervals * config.Heartbeat)
		calls := s.Calls(script.Renew)[from:]
		assert.LessOrEqual(t, len(calls), 9*intervals, "heartbeats")
		last, beats := make(map[string]time.Time), make(map[string]int)
		for _, c := range calls {
			for _, h := range c.Holds {
				if before, ok := last[h.Name]; ok {
					assert.InDelta(t, config.Heartbeat, c.At.Sub(before),
						float64(config.Heartbeat/8), "lease %s", h.Name)
				}
				last[h.Name] = c.At
				beats[h.Name]++
			}
		}
		require.Len(t, beats, n)
		for name, b := range beats {
			assert.InDelta(t, intervals, b, 1, "lease %s", name)
		}
		for _, l := range leases {
			require.NoError(t, l.Release(t.Context()))
		}
	})
}

// A heartbeat that has failed is repeated with none but those who were in it,
// for a TTL.
func TestAFailedHeartbeatTakesNobodyAlong(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		var leases []*renewer.Lease
		for i := range 60 {
			leases = append(leases, acquire(t, k, fmt.Sprint(i)))
			waitFor(config.Heartbeat / 32) // or they would beat together
		}
		for range 10 {
			waitFor(5 * config.Heartbeat) // a TTL, and they find together again
			s.Script(script.Renew, script.Fail(errDown))
			from := len(s.Calls(script.Renew))
			waitFor(config.Heartbeat)
			calls := s.Calls(script.Renew)[from:]
			failed := make(map[string]bool)
			for _, h := range calls[0].Holds {
				failed[h.Name] = true
			}
			repeated := 0
			for _, c := range calls[1:] {
				with := 0
				for _, h := range c.Holds {
					if failed[h.Name] {
						with++
					}
				}
				repeated += with
				if with > 0 {
					assert.Less(t, len(c.Holds)-with, 3, "who happens to be due at the same moment")
				}
			}
			assert.Equal(t, len(failed), repeated)
		}
		for _, l := range leases {
			require.NoError(t, l.Release(t.Context()))
		}
	})
}
