package redisstore_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// direct returns a store through a link with which requests of lone callers go
// directly by now.
func direct(
	t *testing.T, edit ...func(*rueidis.ClientOption),
) (*proxy.Proxy, *redisstore.Engine) {
	t.Helper()
	link, store := throughLink(t, edit...)
	warm(t, store)
	return link, store
}

// warmUp is how many requests must have been alone for the next to go directly.
const warmUp = 16

// warm makes as many requests as must have been alone for the next to go
// directly.
func warm(t *testing.T, store *redisstore.Engine) {
	t.Helper()
	for range warmUp {
		lone(t, store)
	}
}

func lone(t *testing.T, store *redisstore.Engine) {
	t.Helper()
	mine(t, store, claim("warm", "a", time.Minute))
	release(t, store, hold("warm", "a", 0))
}

// A lone caller's requests have a connection of their own, and heartbeats do not. Each of
// four callers who meet has one, and no fifth has.
func TestConnectionsOfLoneCallers(t *testing.T) {
	t.Parallel()
	link, store := direct(t)
	require.Equal(t, 2, link.Conns())
	lone(t, store)
	renew(t, store, hold("other", "a", time.Minute))
	warm(t, store)
	require.Equal(t, 2, link.Conns())

	link.Delay(time.Millisecond) // or they might not meet
	for _, callers := range []int{4, 8} {
		for range warmUp {
			crowd(t, store, callers)
		}
		require.Equal(t, 5, link.Conns(), "%d callers", callers)
	}
}

// crowd has many callers acquire and release at once.
func crowd(t *testing.T, store *redisstore.Engine, n int) {
	t.Helper()
	done := make(chan error, n)
	for i := range n {
		go func() {
			name := "crowd" + strconv.Itoa(i)
			g := store.Acquire(t.Context(), []contract.Claim{claim(name, "a", time.Minute)})[0]
			a := store.Release(t.Context(), []contract.Hold{hold(name, "a", 0)})[0]
			done <- errors.Join(g.Err, a.Err)
		}()
	}
	for range n {
		require.NoError(t, <-done)
	}
}

// A caller who uses the client for other commands too keeps one connection for
// all.
func TestOneConnectionForAll(t *testing.T) {
	t.Parallel()
	link, store := direct(t, func(o *rueidis.ClientOption) { o.AlwaysPipelining = true })
	lone(t, store)
	require.Equal(t, 1, link.Conns())
}

// A lone caller whose server does not answer returns at the deadline, and
// another one is served as soon as the server is back.
func TestALoneCallerLeaves(t *testing.T) {
	t.Parallel()
	link, store := direct(t)
	link.Blackhole(proxy.Both)
	ctx := within(t, 300*time.Millisecond)
	begun := time.Now()
	g := store.Acquire(ctx, []contract.Claim{claim("a", "a", time.Minute)})[0]
	assert.ErrorIs(t, g.Err, context.DeadlineExceeded)
	assert.Less(t, time.Since(begun), 4*time.Second, "not ConnWriteTimeout (7.5 s)")
	assert.NotErrorIs(t, g.Err, contract.ErrNotSent)
	link.HealReset()
	require.Eventually(t, func() bool {
		g := store.Acquire(t.Context(), []contract.Claim{claim("b", "a", time.Minute)})[0]
		return g.Status == contract.StatusHeld
	}, patience, time.Millisecond)
}

// The connection of lone callers has ended while none of them used it: the next
// does not notice. A heartbeat may, which goes by the shared one.
func TestAnIdleConnectionHasEnded(t *testing.T) {
	t.Parallel()
	link, store := direct(t)
	for range 5 {
		link.Reset()
		require.Eventually(t, func() bool {
			a := store.Renew(t.Context(), []contract.Hold{hold("other", "a", time.Minute)})[0]
			return a.Err == nil
		}, patience, time.Millisecond, "the shared connection is not made again")
		warm(t, store)
	}
}
