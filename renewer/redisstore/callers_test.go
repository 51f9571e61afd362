package redisstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// tells has a heartbeat tell how many callers wait.
func tells(t testing.TB, s *redisstore.Engine, h contract.Hold, n int) {
	t.Helper()
	h.Tells, h.Callers = true, n
	require.Equal(t, contract.StatusHeld, renew(t, s, h).Status)
}

// The number is a line of the lease's value, whatever else stands in it, or in
// what is known of a slot. A full server does not refuse it.
func TestCallersInAValue(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	key := redisstore.LeaseKey(redisstore.DefaultPrefix, "a")
	slots := slotsKey("a")
	s.ok(t, "ZADD", slots, "8000000000000000", owner("a"))
	for rest, want := range map[string]string{
		"node-a":             "node-a\n\n\n\n19",
		"node-a\n42\ntest":   "node-a\n42\ntest\n\n19",
		"node-a\n42\n":       "node-a\n42\n\n\n19",
		"n\n1\no\n\n7":       "n\n1\no\n\n19",
		"n\n1\no\nT\n7\n\nm": "n\n1\no\nT\n19\n\nm",
		"n\n1\no\n+":         "n\n1\no\n\n19\n+",
		"n\n1\no\nT\n7\n+":   "n\n1\no\nT\n19\n+",
	} {
		s.ok(t, "SET", key, owner("a")+"\n7\n5\n"+rest, "PX", "60000")
		tells(t, store, hold("a", "a", time.Minute), 19)
		assert.Equal(t, owner("a")+"\n7\n5\n"+want, s.get(t, key), "%q", rest)
		s.pttl(t, key, 1, minute)
		s.ok(t, "HSET", slots+":holders", owner("a"), "7\n5\n"+rest)
		tells(t, store, holdSlot("a", "a", time.Minute), 19)
		assert.Equal(t, "7\n5\n"+want, s.texts(t, "HVALS", slots+":holders")[0], "%q", rest)
	}
}
