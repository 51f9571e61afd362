package redisstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// standShown has places of a store stand in line, and awaits that another shows
// whose they are.
func standShown(t *testing.T, store, other *redisstore.Engine) {
	t.Helper()
	store.LongWait(10 * time.Millisecond)
	mine(t, other, claim("a", "a", time.Minute))
	listening(t, store)
	stand(t, store, "b")
	stand(t, store, "c")
	var lock contract.Lock
	require.Eventually(t, func() bool {
		lock = show(t, other, "a")
		return lock.Places[1].Operation != ""
	}, patience, 5*time.Millisecond)
	for i, letter := range []string{"b", "c"} {
		assert.Equal(t, claim("a", letter, 0).Holder, lock.Places[i].Holder)
	}
}

func TestFaces(t *testing.T) {
	t.Parallel()
	withRedis(t, func(t *testing.T, s server) {
		store, other := s.store(t), s.store(t)
		standShown(t, store, other)
		s.pttl(t, redisstore.FaceKey(redisstore.DefaultPrefix, store), 1, minute)

		t.Log("a place that is not told of is of the same process")
		for _, place := range []string{"1 " + store.Inbox() + " 1000", "2 OTHER 1000"} {
			s.ok(t, "ZADD", redisstore.LineKey(redisstore.DefaultPrefix, "a"), "1", place)
		}
		places := show(t, other, "a").Places
		assert.Equal(t, contract.Holder{Node: "node-b", PID: 42}, places[0].Holder)
		assert.Equal(t, contract.Holder{}, places[1].Holder, "whose face is not there")
	})
}
