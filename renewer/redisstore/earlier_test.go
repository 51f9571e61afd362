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

// Versions before places have the same lease, so that they and this one exclude each other.
// Their waiters stand in a line of their own, KEY:line, by owner token; their releases look
// into that line alone, and tell all. Here they are played by what their scripts do.
func TestBesideAnEarlierVersion(t *testing.T) {
	t.Parallel()
	const fence, poll = int64(8e15), 200 * time.Millisecond
	lease, counter := redisstore.LockKeys(redisstore.DefaultPrefix, "a")
	line := lease + ":line"
	held := owner("o") + "\n" + strconv.FormatInt(fence, 10) + "\n1700000000000000\nold\n1\nop"
	acquires := func(t *testing.T, s server, ms string) {
		s.ok(t, "SET", counter, strconv.FormatInt(fence, 10), "PX", "86400000")
		s.ok(t, "SET", lease, held, "PX", ms)
	}

	t.Run("its release is found by the polls of those who wait", func(t *testing.T) {
		t.Parallel()
		_, s := startReal(t)
		acquires(t, s, "60000")
		got := make(chan *renewer.Lease, 3)
		s.waiters(t, s.pollingKeepers(t, 3, poll), got)
		g := acquire(t, s.store(t), claim("a", "x", minuteTTL))
		assert.Equal(t, renewer.StatusTaken, g.Status)
		assert.Equal(t, "old", g.Holder.Node)
		s.ok(t, "DEL", lease)
		s.ok(t, "PUBLISH", lease+":freed", "")
		last := fence
		for range 3 {
			l := next(t, got)
			assert.Greater(t, l.Fence(), last, "its counter counts")
			last = l.Fence()
			require.NoError(t, l.Release(t.Context()))
		}
	})

	t.Run("a turn that it gives to one of its own is respected", func(t *testing.T) {
		t.Parallel()
		_, s := startReal(t)
		acquires(t, s, "60000")
		s.ok(t, "ZADD", line, "1", owner("p"))
		got := make(chan *renewer.Lease, 1)
		s.waiters(t, s.pollingKeepers(t, 1, poll), got)
		begun := time.Now()
		s.ok(t, "ZPOPMIN", line)
		s.ok(t, "SET", lease, owner("p")+"\n8000000000000001\n1700000000000000\n", "PX", "1000")
		s.ok(t, "PUBLISH", lease+":freed", "0123456789012345678901234567890123456789 ")
		require.NoError(t, next(t, got).Release(t.Context()))
		assert.GreaterOrEqual(t, time.Since(begun), 900*time.Millisecond, "until it has lapsed")
	})

	t.Run("its waiters hear of a release when none of this version waits", func(t *testing.T) {
		t.Parallel()
		_, s := startReal(t)
		store := s.store(t)
		mine(t, store, claim("a", "a", minuteTTL))
		s.ok(t, "ZADD", line, "1", owner("p"))
		s.ok(t, "PEXPIRE", line, "60000")
		freed := s.listen(t, lease+":freed")
		got := make(chan *renewer.Lease, 1)
		s.waiters(t, s.keepers(t, 1), got)
		require.Equal(t, renewer.StatusHeld, release(t, store, hold("a", "a", 0)).Status)
		l := next(t, got)
		assert.Empty(t, freed, "its turn is after those in the line of this version")
		require.NoError(t, l.Release(t.Context()))
		assert.Empty(t, <-freed)
		assert.Zero(t, s.number(t, "EXISTS", lease))
		assert.Equal(t, int64(1), s.number(t, "ZCARD", line), "its line is left alone")

		acquires(t, s, "60000")
		s.pttl(t, line, 1, minute)
		assert.Equal(t, renewer.StatusTaken, acquire(t, store, claim("a", "x", minuteTTL)).Status)
	})
}
