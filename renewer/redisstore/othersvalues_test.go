package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	internal "github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// A lease may have been written by an earlier version, which did not know the
// last lines of ours, or by a later one, which has more. It is a lease like any
// other.
func TestLeasesOfOtherVersions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ rest, operation string }{
		"without a line behind the node": {"", ""},
		"with lines behind ours": {
			"\n42\ntest\n" + traceparent + "\nversion 9\nmore", "test",
		},
		"with lines where some of ours are not": {"\n42\ntest\n\n\nversion 9", "test"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, s := startReal(t)
			store := s.store(t)
			key := redisstore.LeaseKey(redisstore.DefaultPrefix, "a")
			written := owner("a") + "\n7\n5\nnode-a" + c.rest
			s.ok(t, "SET", key, written, "PX", "60000")

			require.Equal(t, contract.StatusHeld, renew(t, store, hold("a", "a", 2*time.Minute)).Status)
			s.pttl(t, key, minute+1, 2*minute)
			assert.Equal(t, int64(7), mine(t, store, claim("a", "a", time.Minute)), "an acquire repeated")
			seen := show(t, store, "a").Slots[0]
			assert.Equal(t, int64(7), seen.Fence)
			assert.Equal(t, "node-a", seen.Node)
			assert.Equal(t, c.operation, seen.Operation)

			listening(t, store)
			stand(t, store, "b")
			assert.Equal(t, written+"\n+", s.get(t, key), "nothing is lost of it")
			require.Equal(t, contract.StatusHeld, release(t, store, hold("a", "a", 0)).Status)
			mine(t, store, queue("b"))

			s.ok(t, "SET", key, written, "PX", "60000")
			why := contract.Broken{By: "me", Why: "why"}
			breaking := contract.Breaking{Name: "a", Fence: 7, Broken: why}
			require.Equal(t, contract.StatusHeld, store.Break(t.Context(), breaking).Status)
			answer := renew(t, store, hold("a", "a", time.Minute))
			require.Equal(t, contract.StatusBroken, answer.Status)
			assert.Equal(t, &why, answer.Broken)
			require.Equal(t, contract.StatusHeld, release(t, store, hold("a", "a", 0)).Status)
			assert.Zero(t, s.number(t, "EXISTS", key))
		})
	}
}

// What a later version writes that this one cannot know is no lease of this
// process: it is granted to no caller, and left as it is.
func TestLeasesOfAnUnknownForm(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	key := redisstore.LeaseKey(redisstore.DefaultPrefix, "a")
	for _, written := range []string{
		"2\n" + owner("a") + "\n7\n5\nnode-a", "turns\n2\n1 INBOX 1000", "{\"owner\":\"a\"}",
		owner("a") + owner("b"), "*" + owner("a") + "\n7\n5\nnode-a", strings.Repeat("x", 1000),
	} {
		s.ok(t, "SET", key, written, "PX", "60000")
		refused := acquire(t, store, claim("a", "b", time.Minute))
		assert.Equal(t, contract.StatusTaken, refused.Status)
		assert.True(t, refused.Foreign, written)
		answer := renew(t, store, hold("a", "b", time.Hour))
		assert.Equal(t, contract.StatusTaken, answer.Status)
		assert.True(t, answer.Foreign, written)
		assert.Equal(t, contract.StatusTaken, release(t, store, hold("a", "b", 0)).Status)
		breaking := contract.Breaking{Name: "a", Fence: 7, Broken: contract.Broken{Force: true}}
		assert.Equal(t, contract.StatusTaken, store.Break(t.Context(), breaking).Status)
		assert.True(t, show(t, store, "a").Foreign)
		assert.Equal(t, written, s.get(t, key))
		s.pttl(t, key, 1, minute)
	}
}

// So it is with what is kept beside a lease: more lines are no hindrance.
func TestNotesOfLaterVersions(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	key := redisstore.LeaseKey(redisstore.DefaultPrefix, "a")
	s.ok(t, "SET", key, "!"+owner("a")[1:]+"\n7\n5\nnode-a\n42\ntest", "PX", "60000")
	s.ok(t, "SET", key+":broken:!"+owner("a")[1:], "broken\nme\nwhy\ntold\nmore", "PX", "60000")
	answer := renew(t, store, hold("a", "a", time.Minute))
	assert.Equal(t, &contract.Broken{By: "me", Why: "why"}, answer.Broken)

	s.ok(t, "SET", key+":newest", owner("a")+"\n7\n0\nnode-a\n42\nmore", "PX", "60000")
	told := make(chan string, 10)
	before := contract.Holder{Node: "node-a", PID: 42}
	t.Cleanup(store.OnBreak(before, func(name string, _ bool) {
		if name != "" { // that it is set up, or published below
			told <- name
		}
	}))
	channel := redisstore.ProcessChannel(redisstore.DefaultPrefix, before)
	require.Eventually(t, func() bool {
		return s.number(t, "PUBLISH", channel, "") > 0
	}, patience, time.Millisecond)
	newer := internal.Replacement{Name: "a", Owner: owner("b"), By: contract.Holder{Node: "x"}}
	_, err := store.Replace(t.Context(), newer)
	require.NoError(t, err)
	select {
	case name := <-told:
		assert.Equal(t, "a", name)
	case <-time.After(patience):
		t.Error("the call before is not told")
	}

	slots := slotsKey("l")
	s.ok(t, "ZADD", slots, "2000000000000000", owner("a"))
	s.ok(t, "HSET", slots+":holders", owner("a"), "7\n5\nnode-a\n42\ntest\n\n\nmore")
	assert.Equal(t, "node-a", showOf(t, store, "l", true).Slots[0].Node)
	require.Equal(t, contract.StatusHeld, renew(t, store, holdSlot("l", "a", time.Minute)).Status)
	require.Equal(t, contract.StatusHeld, release(t, store, holdSlot("l", "a", 0)).Status)
}
