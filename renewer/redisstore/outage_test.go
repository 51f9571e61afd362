package redisstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// Whatever happens to the server while ten wait, each of them has the lock in
// the end, and soon.
func TestNoWaiterIsLost(t *testing.T) {
	t.Parallel()
	line := redisstore.LineKey(redisstore.DefaultPrefix, "a")
	for name, happens := range map[string]func(t *testing.T, redis *redistest.Server, s *server){
		"restart": func(t *testing.T, redis *redistest.Server, s *server) {
			redis.Kill()
			require.NoError(t, redis.Restart())
			s.admin = redis.Client(t)
		},
		"FLUSHALL": func(t *testing.T, _ *redistest.Server, s *server) { s.ok(t, "FLUSHALL") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis, s := startReal(t)
			holder := s.store(t)
			mine(t, holder, claim("a", "a", minuteTTL))
			const n = 10
			got := make(chan *renewer.Lease, n)
			s.waiters(t, s.pollingKeepers(t, n, time.Second), got)
			happens(t, redis, &s)
			begun := time.Now()
			require.Eventually(t, func() bool { // unless it is gone already
				return release(t, holder, hold("a", "a", 0)).Err == nil
			}, patience, 10*time.Millisecond)
			last := int64(0)
			for range n {
				l := next(t, got)
				assert.Greater(t, l.Fence(), last)
				last = l.Fence()
				err := l.Release(t.Context())
				if name != "restart" {
					require.NoError(t, err)
				} // otherwise its connection may have ended: the clean-up frees the lock
			}
			assert.Less(t, time.Since(begun), patience)
			assert.Zero(t, s.number(t, "EXISTS", line))
		})
	}
}

// Rights that are taken away while waiters stand in line, and given back, lose
// no waiter: without them the lines are as good as empty.
func TestRightsOfLinesTakenAway(t *testing.T) {
	t.Parallel()
	for name, rights := range map[string][2]string{
		"-zpopmin": {"-zpopmin", "+zpopmin"},
		"-zadd":    {"-zadd", "+zadd"},
		"-zrange":  {"-zrange", "+zrange"},
		"-exists":  {"-exists", "+exists"},
		"-zrem":    {"-zrem", "+zrem"},
		"channels": {"resetchannels", "&" + redisstore.DefaultPrefix + "{*"},
		"-publish": {"-publish", "+publish"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, s := startReal(t)
			holder := s.storeWith(t, redisstore.Rights+" "+redisstore.LineRights)
			mine(t, holder, claim("a", "a", minuteTTL))
			const n = 3
			got := make(chan *renewer.Lease, n)
			// by another user, who keeps all rights
			s.waiters(t, s.pollingKeepers(t, n, time.Second), got)
			s.ok(t, "ACL", "SETUSER", "locks", rights[0])
			answer := release(t, holder, hold("a", "a", 0))
			if name != "-publish" && name != "channels" {
				assert.Equal(t, contract.Answer{Status: contract.StatusHeld}, answer)
			}
			s.ok(t, "ACL", "SETUSER", "locks", rights[1])
			begun := time.Now()
			for range n {
				require.NoError(t, next(t, got).Release(t.Context()))
			}
			assert.Less(t, time.Since(begun), patience, "by their polls, if they hear of nothing")
			lease := redisstore.LeaseKey(redisstore.DefaultPrefix, "a")
			assert.Zero(t, s.number(t, "EXISTS", lease))

			mine(t, holder, claim("a", "a", minuteTTL))
			s.waiters(t, s.farKeepers(t, 1), got)
			begun = time.Now()
			require.Equal(t, contract.Answer{Status: contract.StatusHeld},
				release(t, holder, hold("a", "a", 0)))
			require.NoError(t, next(t, got).Release(t.Context()))
			assert.Less(t, time.Since(begun), 5*time.Second, "as ever")
		})
	}
}

// A place whose link gets slow while it waits asks for a longer turn, at its
// rank. It kept the turn that it came with, and was overtaken for as long as it
// waited.
func TestATurnGrowsWithTheLink(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	redis, s := startReal(t)
	holder := s.store(t)
	mine(t, holder, claim("a", "a", minuteTTL))
	link := proxy.Start(t, redis.Addr())
	far := s
	far.option.InitAddress = []string{link.Addr()}
	k := keeperOn(t, far.store(t), renewer.Config{TTL: 15 * time.Second})
	got := make(chan *renewer.Lease, 1)
	s.waiters(t, []*renewer.Keeper{k}, got)
	link.Delay(700 * time.Millisecond)
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, near := range s.keepers(t, 3) {
		wg.Go(func() {
			for ctx.Err() == nil {
				if l, err := near.Acquire(ctx, renewer.Request{Name: "a"}); err == nil {
					assert.NoError(t, l.Release(context.WithoutCancel(ctx)))
				}
			}
			assert.NoError(t, near.Shutdown(t.Context()), "which gives its place up")
		})
	}
	require.Equal(t, contract.StatusHeld, release(t, holder, hold("a", "a", 0)).Status)
	l := next(t, got)
	leave()
	link.Delay(0)
	require.NoError(t, l.Release(t.Context()))
	wg.Wait()
	assert.Zero(t, s.number(t, "EXISTS", redisstore.LineKey(redisstore.DefaultPrefix, "a")))
}
