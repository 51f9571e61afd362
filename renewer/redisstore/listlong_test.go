package redisstore_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// pings has another client ask the server for as long as it is not stopped, and
// returns how long 99 of 100 answers took at most, and half of them.
func pings(t testing.TB, c rueidis.Client) (stop func() (p50, p99 time.Duration)) {
	ctx, end := context.WithCancel(t.Context())
	var all []time.Duration
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			begun := time.Now()
			if c.Do(ctx, c.B().Ping().Build()).Error() == nil {
				all = append(all, time.Since(begun))
			}
		}
	})
	return func() (p50, p99 time.Duration) {
		end()
		wg.Wait()
		slices.Sort(all)
		return all[len(all)/2], all[len(all)*99/100]
	}
}

// A list of many locks takes a short time, and keeps the server from nobody.
func TestListOfManyLocks(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	const n = 100_000
	const step = 1000
	for from := 0; from < n; from += step {
		claims := make([]contract.Claim, step)
		for i := range claims {
			claims[i] = claim(fmt.Sprint("account:", from+i), "a", time.Hour)
		}
		for _, grant := range store.Acquire(t.Context(), claims) {
			require.NoError(t, grant.Err)
		}
	}
	idle := pings(t, s.client(t))
	<-time.After(time.Second)
	t.Logf("PING alone: %v", fmt.Sprint(idle()))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	stop := pings(t, s.client(t))
	begun, seen := time.Now(), 0
	for lock, err := range store.List(t.Context(), nil) {
		require.NoError(t, err)
		if lock.Slots[0].Node == "node-a" {
			seen++
		}
	}
	took := time.Since(begun)
	p50, p99 := stop()
	runtime.ReadMemStats(&after)
	t.Logf("%d locks in %v; PING meanwhile: p50 %v, p99 %v; %d bytes allocated a lock", n, took,
		p50, p99, (after.TotalAlloc-before.TotalAlloc)/n)
	assert.Equal(t, n, seen)
	assert.Less(t, took, 10*time.Second)
}
