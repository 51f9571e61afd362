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

// A release takes the counter of what was reserved away, and the mark is the highest token used, to
// the last digit.
func TestAReleaseGivesTokensBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		store := s.store(t, redisstore.FenceTTL(time.Hour))
		ahead := redisstore.AheadKey(redisstore.DefaultPrefix, "a")
		mark := redisstore.MarkKey(redisstore.DefaultPrefix)
		const all = 60_000_000 // the clock is there a minute later
		// what is used above the grant's own token
		for used, left := range map[int64]int64{1: 0, 7: 7, all: all} {
			s.ok(t, "FLUSHALL") // the mark may be ahead of the clock from before
			g := reserved(t, store, all)
			assert.Equal(t, strconv.FormatInt(g.Fence+all, 10), s.get(t, ahead))
			s.pttl(t, ahead, 55_000, 61_001)
			if used > 1 {
				used += g.Fence
			}
			require.Equal(t, renewer.StatusHeld, release(t, store, giving(used)).Status)
			assert.Zero(t, s.number(t, "EXISTS", ahead))
			assert.Equal(t, strconv.FormatInt(g.Fence+left, 10), s.get(t, mark))
			s.pttl(t, mark, time.Hour.Milliseconds()-60_000, time.Hour.Milliseconds()+1)
		}
	})
}

// A mark that has gone on meanwhile stays where it is.
func TestGivingTokensBackLowersNoMark(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		store := s.store(t)
		g := reserved(t, store, 1000)
		s.ok(t, "SET", redisstore.MarkKey(redisstore.DefaultPrefix), "8000000000000000")
		require.Equal(t, renewer.StatusHeld, release(t, store, giving(g.Fence+7)).Status)
		assert.Equal(t, "8000000000000000", s.get(t, redisstore.MarkKey(redisstore.DefaultPrefix)))
	})
}

// The counter of what was reserved goes when the clock has reached it, which may be before the
// release: the mark is the highest token used all the same, since the clock may be set back yet.
func TestTokensUsedOutliveTheirCounter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		store := s.store(t)
		g := reserved(t, store, 1000)
		s.ok(t, "DEL", redisstore.AheadKey(redisstore.DefaultPrefix, "a"))
		require.Equal(t, renewer.StatusHeld, release(t, store, giving(g.Fence+7)).Status)
		mark := redisstore.MarkKey(redisstore.DefaultPrefix)
		assert.Equal(t, strconv.FormatInt(g.Fence+7, 10), s.get(t, mark))
	})
}

// Of tokens that were given, the counter goes back to the highest used, and keeps its TTL.
func TestAReleaseGivesGivenTokensBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		store := s.store(t, redisstore.FenceTTL(time.Hour))
		_, counter := redisstore.LockKeys(redisstore.DefaultPrefix, "a")
		for used, left := range map[int64]int64{1: 0, 8e15 + 7: 7, 8e15 + 1000: 1000, 8e15 + 2000: 1000} {
			s.ok(t, "FLUSHALL")
			c := claim("a", "a", time.Minute)
			c.Fence, c.Reserve = 8e15, 1000
			require.Equal(t, 1000, acquire(t, store, c).Reserved)
			require.Equal(t, renewer.StatusHeld, release(t, store, giving(used)).Status)
			assert.Equal(t, strconv.FormatInt(8e15+left, 10), s.get(t, counter))
			s.pttl(t, counter, time.Hour.Milliseconds()-60_000, time.Hour.Milliseconds())
		}
	})
}

// A counter that another program has taken away, or written to, is left as it is, and the lock is
// freed all the same.
func TestAReleaseBesideADamagedCounter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		store := s.store(t)
		lease := redisstore.LeaseKey(redisstore.DefaultPrefix, "a")
		for _, counter := range counters() {
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
				if kind == "none" && counter == redisstore.MarkKey(redisstore.DefaultPrefix) {
					kind = "raised" // in place of the counter of what was reserved
					assert.Equal(t, "string", left)
				} else {
					assert.Equal(t, kind, left, counter)
				}
				if kind == "string" {
					assert.Equal(t, "x9", s.get(t, counter))
				}
				s.ok(t, "DEL", counter)
			}
		}
	})
}

// A counter that an earlier version has left, or a quorum, is below the tokens of a lease that was
// handed over for longer than its own counter lived: what was used is in the mark all the same.
func TestTokensUsedBesideAnOldCounter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		store := s.store(t)
		_, old := redisstore.LockKeys(redisstore.DefaultPrefix, "a")
		s.ok(t, "SET", old, "1700000000000000", "PX", "60000")
		g := reserved(t, store, 1000)
		s.ok(t, "DEL", redisstore.AheadKey(redisstore.DefaultPrefix, "a"))
		require.Equal(t, renewer.StatusHeld, release(t, store, giving(g.Fence+900)).Status)
		assert.Equal(t, strconv.FormatInt(g.Fence+900, 10),
			s.get(t, redisstore.MarkKey(redisstore.DefaultPrefix)))
	})
}
