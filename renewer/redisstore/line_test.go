package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// One who waits and gets no place any more, as there is something else where
// the line was, hears what is for all from then on, and is not kept from the
// lock when it is free.
func TestAWaiterWithoutItsLineHearsWhatIsForAll(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	mine(t, store, claim("a", "a", minuteTTL))
	require.NotEqual(t, contract.StatusQueued, acquire(t, store, queue("b")).Status)
	w := newWatch(store, "a")
	defer w.stop()
	w.await(t, "set up")
	stand(t, store, "b")

	line := redisstore.LineKey(redisstore.DefaultPrefix, "a")
	s.ok(t, "DEL", line)
	s.ok(t, "SET", line, "x")
	w.clear()
	grant := acquire(t, store, queue("b"))
	require.Equal(t, contract.StatusTaken, grant.Status)
	assert.Positive(t, grant.TTL)
	w.await(t, "set up for what is for all")
	assert.Equal(t, contract.StatusTaken, release(t, store, leaving("c")).Status,
		"which gives up a place that is not there")
	w.clear()
	require.Equal(t, contract.StatusHeld, release(t, store, hold("a", "a", 0)).Status)
	w.await(t, "released")
	require.Equal(t, contract.StatusHeld, acquire(t, store, queue("b")).Status)
	assert.Equal(t, "x", s.get(t, line), "it is not ours")
}

// While a mailbox is not open, claims present no place: its turn would be one
// of the dead. When it opens again all who wait are woken, as a turn may have
// slipped by.
func TestAMailboxThatFails(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	holder := s.store(t)
	mine(t, holder, claim("a", "a", minuteTTL))
	store := s.storeWith(t, redisstore.Rights+" "+redisstore.LineRights)
	require.NotEqual(t, contract.StatusQueued, acquire(t, store, queue("b")).Status)
	first := newWatch(store, "a")
	first.await(t, "set up")
	stand(t, store, "b")
	first.stop()
	w := newWatch(store, "a") // which has a place, so that it hears nothing that is for all
	defer w.stop()
	for range 3 {
		w.clear()
		s.ok(t, "CLIENT", "KILL", "TYPE", "pubsub")
		w.await(t, "set up again")
		assert.Len(t, w.errors(), 1, "and told of it before, once")
	}
	s.ok(t, "ACL", "SETUSER", "locks", "-subscribe")
	w.clear()
	s.ok(t, "CLIENT", "KILL", "TYPE", "pubsub")
	require.Eventually(t, func() bool { return len(w.errors()) > 0 }, patience, time.Millisecond)
	assert.NotEqual(t, contract.StatusQueued, acquire(t, store, queue("c")).Status)
	w.clear()
	s.ok(t, "ACL", "SETUSER", "locks", "+subscribe")
	w.await(t, "set up again")
	stand(t, store, "b")
	line := redisstore.LineKey(redisstore.DefaultPrefix, "a")
	assert.Equal(t, int64(1), s.number(t, "ZCARD", line), "the place is the same")
	w.clear()
	require.Equal(t, contract.StatusHeld, release(t, holder, hold("a", "a", 0)).Status)
	w.await(t, "its turn")
	require.Equal(t, contract.StatusHeld, acquire(t, store, queue("b")).Status)
}

// A caller who has waited since before the server said what it lets the store
// do stands in line as well.
func TestAWatchBeforeTheServerHasAnswered(t *testing.T) {
	t.Parallel()
	redis, s := startReal(t)
	mine(t, s.store(t), claim("a", "a", minuteTTL))
	client := s.client(t)
	require.NoError(t, redis.Stop())
	store := storeOn(t, client)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, store.Acquire(ctx, []contract.Claim{queue("b")})[0].Err, context.Canceled)
	w := newWatch(store, "a")
	defer w.stop()
	require.NoError(t, redis.Cont())
	w.await(t, "set up")
	stand(t, store, "b")
}

// A mailbox stays open for a moment after the last watch, so that the next
// caller has its place at once; and then it is closed.
func TestAMailboxLingers(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	mine(t, store, claim("a", "a", minuteTTL))
	require.NotEqual(t, contract.StatusQueued, acquire(t, store, queue("b")).Status)
	w := newWatch(store, "a")
	w.await(t, "set up")
	stand(t, store, "b")
	w.stop()
	assert.Equal(t, 1, s.hearers(t))
	assert.Equal(t, contract.StatusQueued, acquire(t, store, queue("c")).Status,
		"at its first claim, without a watch")
	for _, letter := range []string{"b", "c"} {
		require.Equal(t, contract.StatusTaken, release(t, store, leaving(letter)).Status)
	}
	assert.Equal(t, 1, s.hearers(t))
	require.Eventually(t, func() bool { return s.hearers(t) == 0 }, 2*patience,
		10*time.Millisecond)
	assert.NotEqual(t, contract.StatusQueued, acquire(t, store, queue("d")).Status,
		"since it could not hear of its turn")
	assert.Zero(t, s.number(t, "EXISTS", redisstore.LineKey(redisstore.DefaultPrefix, "a")))
}

// Close ends mailboxes that are used and those that linger. A caller who
// watches hears of it once. (TestMain counts goroutines.)
func TestCloseEndsMailboxes(t *testing.T) {
	t.Parallel()
	for name, lingers := range map[string]bool{"used": false, "lingering": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, s := startReal(t)
			store := s.store(t)
			mine(t, store, claim("a", "a", minuteTTL))
			require.NotEqual(t, contract.StatusQueued, acquire(t, store, queue("b")).Status)
			w := newWatch(store, "a")
			w.await(t, "set up")
			stand(t, store, "b")
			if lingers {
				w.stop()
			}
			store.Close()
			require.Eventually(t, func() bool {
				return s.hearers(t) == 0
			}, patience, time.Millisecond)
			if lingers {
				assert.Empty(t, w.errors())
				return
			}
			require.Eventually(t, func() bool {
				return len(w.errors()) == 1
			}, patience, time.Millisecond)
			require.ErrorIs(t, w.errors()[0], redisstore.ErrClosed)
			w.stop()
			assert.Len(t, w.errors(), 1)
		})
	}
}
