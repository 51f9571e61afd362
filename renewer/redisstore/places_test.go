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

// A place that got no rank is forgotten with the answer: no caller would give
// it up. The store kept it, and the lock's name, for ever.
func TestPlacesWithoutARankAreForgotten(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string][]string{
		"another program's key":       {"SET", redisstore.LineKey(redisstore.DefaultPrefix, "a"), "x"},
		"the server's memory is full": {"CONFIG", "SET", "maxmemory", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, s := startReal(t)
			keepers := s.keepers(t, 2)
			store := s.store(t)
			first, err := keepers[0].Acquire(t.Context(), renewer.Request{Name: "a"})
			require.NoError(t, err)
			listening(t, store)
			before := store.Places()
			stand(t, store, "b")
			release(t, store, leaving("b"))
			s.ok(t, spoil...)
			for _, letter := range []string{"c", "d", "e"} {
				grant := acquire(t, store, queue(letter))
				require.Equal(t, contract.StatusTaken, grant.Status)
			}
			assert.Equal(t, before, store.Places())

			t.Log("so it is with callers, of whom the keepers' store has nothing when they have left")
			for range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				_, err := keepers[1].Acquire(ctx, renewer.Request{Name: "a"})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				cancel()
			}
			s.ok(t, "CONFIG", "SET", "maxmemory", "0")
			require.NoError(t, first.Release(t.Context()))
		})
	}
}

// A lock that goes from hand to hand keeps the mark of its tokens, of which the
// time is not written each time.
func TestHandOversKeepTheMark(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	mark := redisstore.MarkKey(redisstore.DefaultPrefix)
	mine(t, store, claim("a", "a", minuteTTL))
	listening(t, store)
	s.ok(t, "PEXPIRE", mark, "60000")
	holder, waiter := "a", "b"
	require.Eventually(t, func() bool {
		stand(t, store, waiter)
		require.Equal(t, contract.StatusHeld, release(t, store, hold("a", holder, 0)).Status)
		awaitGrant(t, store, queue(waiter))
		holder, waiter = waiter, holder
		return s.number(t, "PTTL", mark) > 60000
	}, patience, time.Millisecond)
}
