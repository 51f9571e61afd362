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

// reserved takes a lock with n tokens reserved above its own.
func reserved(t *testing.T, s renewer.Store, n int) renewer.Grant {
	t.Helper()
	c := claim("a", "a", time.Minute)
	c.Reserve = n
	g := acquire(t, s, c)
	require.Equal(t, renewer.Grant{Status: renewer.StatusHeld, Fence: g.Fence, Reserved: n}, g)
	return g
}

// giving is a release of that lock that gives back what is above used.
func giving(used int64) renewer.Hold {
	h := hold("a", "a", 0)
	h.Used = used
	return h
}

// A release sets the counter to the highest token used, to the last digit, and keeps its TTL.
func TestAReleaseGivesTokensBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		store := s.store(t, redisstore.FenceTTL(time.Hour))
		_, counter := redisstore.LockKeys(redisstore.DefaultPrefix, "a")
		// what is left above the grant's own token
		for used, left := range map[int64]int64{1: 0, 7: 7, 1000: 1000, 2000: 1000} {
			s.ok(t, "FLUSHALL") // the counter may be ahead of the clock from before
			g := reserved(t, store, 1000)
			if used > 1 {
				used += g.Fence
			}
			require.Equal(t, renewer.StatusHeld, release(t, store, giving(used)).Status)
			assert.Equal(t, strconv.FormatInt(g.Fence+left, 10), s.get(t, counter))
			s.pttl(t, counter, time.Hour.Milliseconds()-60_000, time.Hour.Milliseconds())
		}
	})
}

// A counter that another program has taken away, or written to, is
// left as it is, and the lock is freed all the same.
func TestAReleaseBesideADamagedCounter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		store := s.store(t)
		lease, counter := redisstore.LockKeys(redisstore.DefaultPrefix, "a")
		for kind, damage := range map[string][]string{
			"none": {"DEL", counter}, "string": {"SET", counter, "x9"},
			"list": {"RPUSH", counter, "9"},
		} {
			reserved(t, store, 10)
			s.ok(t, "DEL", counter)
			s.ok(t, damage...)
			require.Equal(t, renewer.StatusHeld, release(t, store, giving(1)).Status)
			assert.Zero(t, s.number(t, "EXISTS", lease))
			left, err := s.do(t, "TYPE", counter).ToString()
			require.NoError(t, err)
			assert.Equal(t, kind, left)
			if kind == "string" {
				assert.Equal(t, "x9", s.get(t, counter))
			}
			s.ok(t, "DEL", counter)
		}
	})
}
