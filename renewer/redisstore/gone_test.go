package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// When a key was overwritten for less time than its lease had, its holder hears
// of it, and the next in line slept on until its poll. (By the conformance
// suite it does not if the key is gone.)
func TestNextSleepsThoughTheKeyWasOverwritten(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	mine(t, store, claim("a", "a", time.Minute))
	keepers := s.keepers(t, 2)
	got := make(chan *renewer.Lease)
	s.waiters(t, keepers, got)
	begun := time.Now()
	s.ok(t, "SET", redisstore.LeaseKey(redisstore.DefaultPrefix, "a"), "x", "PX", "1000")
	require.Equal(t, contract.StatusTaken, renew(t, store, hold("a", "a", time.Minute)).Status)
	for range keepers {
		l := <-got
		require.NoError(t, l.Release(context.WithoutCancel(t.Context())))
	}
	assert.Less(t, time.Since(begun), 3500*time.Millisecond, "not the poll's 4 s")
}

// What a release finds gone goes to the first in line once, and nothing of a
// stranger's is touched.
func TestReleaseOfWhatIsGone(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	lease := redisstore.LeaseKey(redisstore.DefaultPrefix, "a")
	line := redisstore.LineKey(redisstore.DefaultPrefix, "a")
	mine(t, store, claim("a", "a", minuteTTL))
	listening(t, store)
	stand(t, store, "b")
	stand(t, store, "c")
	s.ok(t, "DEL", lease)
	gone := contract.Answer{Status: contract.StatusGone}
	answers := store.Release(t.Context(), []contract.Hold{hold("a", "a", 0), hold("a", "x", 0)})
	assert.Equal(t, []contract.Answer{gone, gone}, answers)
	assert.Contains(t, s.get(t, lease), owner("b"), "once, though two have found it gone")
	assert.Equal(t, int64(1), s.number(t, "ZCARD", line))
	assert.Equal(t, contract.StatusTaken, release(t, store, hold("a", "a", 0)).Status,
		"a late one frees nothing")
	assert.Contains(t, s.get(t, lease), owner("b"))

	s.ok(t, "DEL", lease)
	assert.Equal(t, gone, release(t, store, leaving("c")),
		"who leaves does not have it granted to itself")
	assert.Zero(t, s.number(t, "EXISTS", lease, line))

	mine(t, store, claim("a", "a", minuteTTL))
	stand(t, store, "b")
	s.ok(t, "DEL", lease)
	s.ok(t, "RPUSH", lease, "x")
	assert.Equal(t, contract.Answer{Status: contract.StatusTaken, Foreign: true},
		release(t, store, hold("a", "a", 0)))
	assert.Equal(t, int64(1), s.number(t, "LLEN", lease),
		"a key of another type stays as it is")
}

// A user with the least rights, who can't stand in line, releases what is gone,
// and leaves a key of another program alone.
func TestAReleaseOfWhatIsGoneWithTheLeastRights(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.storeWith(t, redisstore.Rights)
	lease := redisstore.LeaseKey(redisstore.DefaultPrefix, "a")
	both := []contract.Hold{hold("a", "a", 0), hold("b", "a", 0)}
	for name, gone := range map[string][]string{
		"deleted": {"DEL", lease}, "another program's": {"RPUSH", lease, "theirs"},
	} {
		want := contract.Answer{Status: contract.StatusGone}
		if name != "deleted" {
			want = contract.Answer{Status: contract.StatusTaken, Foreign: true}
		}
		for _, holds := range [][]contract.Hold{both[:1], both} {
			mine(t, store, claim("a", "a", minuteTTL))
			s.ok(t, "DEL", lease)
			s.ok(t, gone...)
			assert.Equal(t, want, store.Release(t.Context(), holds)[0], name)
			assert.Equal(t, int64(len(gone)-2), s.number(t, "EXISTS", lease), name)
			s.ok(t, "DEL", lease)
		}
	}
}
