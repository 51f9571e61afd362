//go:build unix

package faulttest_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// Operations that panic give back the tokens that were reserved for
// those who wait. Otherwise the counter outruns the server's clock,
// and the first token after FLUSHALL is below the last one before.
func TestTokensFollowTheClockThoughOperationsPanic(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := join(t, server, renewer.Config{TTL: renewer.DefaultTTL, HandOffFor: time.Second})
	var left atomic.Int64
	left.Store(2000)
	var wg sync.WaitGroup
	for range 500 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				lease, err := n.keeper.Acquire(t.Context(), "lock")
				if !assert.NoError(t, err) || !assert.NoError(t, lease.Abort(t.Context())) {
					return
				}
			}
		})
	}
	wg.Wait()
	last := n.acquire(t, "lock")
	require.NoError(t, last.Release(t.Context()))
	now, err := server.Do("TIME").AsIntSlice()
	require.NoError(t, err)
	require.LessOrEqual(t, last.Fence(), now[0]*1_000_000+now[1], "the server's clock")
	mustDo(t, server, "FLUSHALL")
	next := n.acquire(t, "lock")
	require.Greater(t, next.Fence(), last.Fence())
	require.NoError(t, next.Release(t.Context()))
}
