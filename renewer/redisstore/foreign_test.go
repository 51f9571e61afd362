package redisstore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// A key of another type where one lock's line, counter or lease should be keeps no other lock of
// the batch from being renewed and freed, and the lock itself only if it is the lease.
func TestAForeignKeyBesideOneLockSpoilsNoOther(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		store := s.store(t)
		for _, suffix := range []string{":line", ":fence", ""} {
			for _, foreign := range [][]string{{"SET", "x"}, {"RPUSH", "x"}, {"HSET", "x", "y"}} {
				const n, bad = 100, 50
				holds := make([]renewer.Hold, n)
				for i := range n {
					name := "batch" + strconv.Itoa(i)
					mine(t, store, claim(name, "a", time.Minute))
					holds[i] = hold(name, "a", time.Minute)
				}
				key := redisstore.LeaseKey(redisstore.DefaultPrefix,
					"batch"+strconv.Itoa(bad)) + suffix
				s.ok(t, "DEL", key)
				s.ok(t, append([]string{foreign[0], key}, foreign[1:]...)...)
				for _, answers := range [][]renewer.Answer{
					store.Renew(t.Context(), holds),
					store.Release(t.Context(), holds),
				} {
					for i, a := range answers {
						require.NoError(t, a.Err, "%d, beside %v at %s", i, foreign, key)
						require.Equal(t, i != bad || suffix != "", a.Status == renewer.StatusHeld,
							"%d, beside %v at %s", i, foreign, key)
					}
				}
				for i := range n {
					if i != bad {
						assert.Zero(t,
							s.number(t, "EXISTS",
								redisstore.LeaseKey(redisstore.DefaultPrefix,
									holds[i].Name)), "%v at %s", foreign, key)
					}
				}
				s.ok(t, "FLUSHALL")
			}
		}
	})
}

// Beside a foreign key a caller waits without a place, and is not kept from the lock when it is
// free.
func TestWhoWaitsBesideAForeignKeyHasNoPlace(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		store := s.store(t)
		line := redisstore.LeaseKey(redisstore.DefaultPrefix, "a") + ":line"
		mine(t, store, claim("a", "a", minuteTTL))
		s.ok(t, "SET", line, "x")
		for range 2 {
			g := acquire(t, store, queue("b"))
			require.Equal(t, renewer.StatusTaken, g.Status, "%v", g.Err)
			assert.Positive(t, g.TTL)
		}
		assert.Equal(t, renewer.StatusTaken, release(t, store, hold("a", "b", 0)).Status,
			"which gives up a place that is not there")
		require.Equal(t, renewer.StatusTaken, acquire(t, store, queue("c")).Status)
		require.Equal(t, renewer.StatusHeld, release(t, store, hold("a", "a", 0)).Status)
		require.Equal(t, renewer.StatusHeld, acquire(t, store, queue("c")).Status)
		assert.Equal(t, "x", s.get(t, line), "it is not ours")
	})
}
