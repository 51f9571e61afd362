package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

const minuteTTL = time.Minute

// queue is a claim for a place in the line: each letter has its own.
func queue(letter string) contract.Claim {
	c := claim("a", letter, minuteTTL)
	c.Place = uint64(letter[0])
	return c
}

// leaving is a release that gives up the place of a letter.
func leaving(letter string) contract.Hold {
	h := hold("a", letter, 0)
	h.Place = uint64(letter[0])
	return h
}

// listening has a store listen for turns, as a caller does who waits after the
// first refusal.
func listening(t testing.TB, store contract.Store) {
	t.Helper()
	require.Equal(t, contract.StatusTaken, acquire(t, store, queue("?")).Status)
	w := newWatch(store, "a")
	t.Cleanup(w.stop)
	w.await(t, "set up")
}

// stand has an owner stand in line, from a store that listens.
func stand(t testing.TB, store contract.Store, letter string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return acquire(t, store, queue(letter)).Status == contract.StatusQueued
	}, patience, time.Millisecond)
}

// awaitGrant is the answer to a claim when the store has heard that it was
// granted.
func awaitGrant(t testing.TB, store *redisstore.Engine, c contract.Claim) contract.Grant {
	t.Helper()
	require.Eventually(t, func() bool { return store.Heard(c.Place) }, patience, time.Millisecond)
	g := acquire(t, store, c)
	require.Equal(t, contract.StatusHeld, g.Status)
	require.True(t, g.Late)
	return g
}

// What is in a line at the server, and that nothing is left there of those who have gone.
func TestPlacesAtTheServer(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	lease, _ := redisstore.LockKeys(redisstore.DefaultPrefix, "a")
	line := redisstore.LineKey(redisstore.DefaultPrefix, "a")
	mine(t, store, claim("a", "a", minuteTTL))

	t.Log("who cannot hear of its turn yet has no place")
	assert.NotEqual(t, contract.StatusQueued, acquire(t, store, queue("b")).Status)
	assert.Zero(t, s.number(t, "EXISTS", line))

	listening(t, store)
	for _, letter := range []string{"b", "c", "b", "d"} {
		stand(t, store, letter)
		s.pttl(t, line, minute, 2*minute)
	}
	assert.Equal(t, int64(3), s.number(t, "ZCARD", line), "one place each")
	require.Equal(t, contract.StatusHeld, release(t, store, hold("a", "a", 0)).Status)
	s.pttl(t, lease, minute-5000, minute)
	assert.Positive(t, awaitGrant(t, store, queue("b")).Reserved)
	assert.Equal(t, contract.StatusTaken, release(t, store, leaving("c")).Status)
	assert.Equal(t, int64(1), s.number(t, "ZCARD", line))
	require.Equal(t, contract.StatusHeld, release(t, store, hold("a", "b", 0)).Status)
	assert.Equal(t, contract.StatusHeld, release(t, store, leaving("d")).Status,
		"it was granted to it, and it has not come")
	assert.Zero(t, s.number(t, "EXISTS", lease, line), "nothing is left")

	t.Log("a late claim puts a place back in the line: the second release takes it out again")
	mine(t, store, claim("a", "a", minuteTTL))
	stand(t, store, "c")
	late, err := s.do(t, "ZRANGE", line, "0", "0").AsStrSlice()
	require.NoError(t, err)
	assert.Equal(t, contract.StatusTaken, release(t, store, leaving("c")).Status)
	s.ok(t, "ZADD", line, "1", late[0])
	assert.Equal(t, contract.StatusTaken, release(t, store, leaving("c")).Status)
	assert.Zero(t, s.number(t, "EXISTS", line))

	t.Log("a lease that lapsed goes to the caller who asks first, and its place is gone")
	stand(t, store, "c")
	s.ok(t, "DEL", lease)
	require.Equal(t, contract.StatusHeld, acquire(t, store, queue("c")).Status)
	assert.Zero(t, s.number(t, "EXISTS", line))
}

// A waiter that wants a lease of hours, without a heartbeat, and has died,
// costs the others no hours: it is kept for it for a moment, in which it is to
// ask.
func TestAManualLeaseIsKeptForAMoment(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	mine(t, store, claim("a", "a", minuteTTL))
	listening(t, store)
	c := queue("b")
	c.TTL, c.Manual = time.Hour, true
	require.Eventually(t, func() bool {
		return acquire(t, store, c).Status == contract.StatusQueued
	}, patience, time.Millisecond)
	require.Equal(t, contract.StatusHeld, release(t, store, hold("a", "a", 0)).Status)
	lease, _ := redisstore.LockKeys(redisstore.DefaultPrefix, "a")
	s.pttl(t, lease, 1, 5000)
	g := acquire(t, store, c)
	require.Equal(t, contract.StatusHeld, g.Status)
	assert.False(t, g.Late)
	s.pttl(t, lease, 60*minute-5000, 60*minute)
}

// Locks of a batch that are free are granted by fewer steps, which left the
// places in their lines.
func TestPlacesOfABatchLeaveTheirLines(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	mine(t, store, claim("a", "a", minuteTTL))
	listening(t, store)
	stand(t, store, "b")
	stand(t, store, "c")
	s.ok(t, "DEL", redisstore.LeaseKey(redisstore.DefaultPrefix, "a"))
	other := claim("other", "b", minuteTTL)
	other.Place = 7
	for _, g := range store.Acquire(t.Context(), []contract.Claim{queue("b"), other}) {
		require.Equal(t, contract.StatusHeld, g.Status)
	}
	line := redisstore.LineKey(redisstore.DefaultPrefix, "a")
	left, err := s.do(t, "ZRANGE", line, "0", "-1").AsStrSlice()
	require.NoError(t, err)
	require.Len(t, left, 1)
	assert.Equal(t, "99", strings.Fields(left[0])[0])
}

// keeperOn makes a keeper on a store, which ends with the test, though that may
// have failed, and looks then at what the store still has of those who waited.
func keeperOn(t *testing.T, store *redisstore.Engine, c renewer.Config) *renewer.Keeper {
	t.Helper()
	k, err := renewer.New(store, c)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		assert.NoError(t, k.Shutdown(ctx))
		assert.Eventually(t, func() bool {
			return store.Places() == 0 && store.Names() == 0
		}, patience, time.Millisecond, "places and names that no caller wants any more")
	})
	return k
}

// keepers are n processes, as it were: each has a store of its own.
func (s server) keepers(t *testing.T, n int) []*renewer.Keeper {
	t.Helper()
	return s.pollingKeepers(t, n, 0)
}

// pollingKeepers are keepers that look for themselves every so often; 0: by
// default.
func (s server) pollingKeepers(t *testing.T, n int, poll time.Duration) []*renewer.Keeper {
	t.Helper()
	all := make([]*renewer.Keeper, n)
	for i := range all {
		all[i] = keeperOn(t, s.store(t), renewer.Config{
			Log: renewer.Silent, TTL: 15 * time.Second, Poll: poll, Node: fmt.Sprint(i),
		})
	}
	return all
}

// waiters wait for the lock, each when the one before it stands in line, and
// say when they have it.
func (s server) waiters(t *testing.T, keepers []*renewer.Keeper, got chan<- *renewer.Lease) {
	t.Helper()
	line := redisstore.LineKey(redisstore.DefaultPrefix, "a")
	before := s.number(t, "ZCARD", line)
	for i, k := range keepers {
		go func() {
			if l, err := k.Acquire(context.WithoutCancel(t.Context()), renewer.Request{
				Name: "a", MaxWait: time.Minute,
			}); assert.NoError(t, err) {
				got <- l
			}
		}()
		require.Eventually(t, func() bool {
			return s.number(t, "ZCARD", line) == before+int64(i)+1
		}, patience, time.Millisecond)
	}
}

// next is who has the lock next.
func next(t *testing.T, got <-chan *renewer.Lease) *renewer.Lease {
	t.Helper()
	select {
	case l := <-got:
		return l
	case <-time.After(2 * patience):
		require.FailNow(t, "a waiter is lost")
		return nil
	}
}

// In the order in which they came, with two questions to the server for each.
func TestProcessesTakeTurns(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	const n = 20
	keepers := s.farKeepers(t, n+1)
	first, err := keepers[n].Acquire(t.Context(), renewer.Request{Name: "a"})
	require.NoError(t, err)
	got := make(chan *renewer.Lease)
	s.waiters(t, keepers[:n], got)
	looker := s.store(t)
	s.ok(t, "CONFIG", "RESETSTAT")
	require.NoError(t, first.Release(t.Context()))
	last := first.Fence()
	for i := range n {
		l := <-got
		g := acquire(t, looker, claim("a", "x", time.Minute))
		require.Equal(t, strconv.Itoa(i), g.Holder.Node)
		require.Greater(t, l.Fence(), last)
		last = l.Fence()
		require.NoError(t, l.Release(t.Context()))
	}
	stats, err := s.do(t, "INFO", "commandstats").ToString()
	require.NoError(t, err)
	calls := 0
	for line := range strings.SplitSeq(stats, "\n") {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
			number, _, _ := strings.Cut(rest, ",")
			calls, err = strconv.Atoi(number)
			require.NoError(t, err)
		}
	}
	assert.LessOrEqual(t, calls, 2*n+5, "to free, and the test's own question")
	assert.Zero(t, s.number(t, "EXISTS",
		redisstore.LineKey(redisstore.DefaultPrefix, "a")))
}

// The callers of the process that has the lock are in no line at the server:
// they come behind a process that came later.
func TestTheHoldersProcessComesLast(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	keepers := s.keepers(t, 2)
	first, err := keepers[0].Acquire(t.Context(), renewer.Request{Name: "a"})
	require.NoError(t, err)
	got, full := make(chan *renewer.Lease), make(chan error)
	for range 2 { // one of them is in its keeper's queue when the other is refused
		go func() {
			l, err := keepers[0].Acquire(context.WithoutCancel(t.Context()), renewer.Request{
				Name: "a", MaxWait: time.Minute, MaxWaiters: 1,
			})
			if err != nil {
				full <- err
				return
			}
			got <- l
		}()
	}
	require.ErrorIs(t, <-full, renewer.ErrQueueFull)
	s.waiters(t, keepers[1:], got)
	require.NoError(t, first.Release(t.Context()))
	looker := s.store(t)
	for _, node := range []string{"1", "0"} {
		l := next(t, got)
		require.Equal(t, node, acquire(t, looker, claim("a", "x", time.Minute)).Holder.Node)
		require.NoError(t, l.Release(t.Context()))
	}
}

// A waiter who gives up leaves the line.
func TestAWaiterLeavesTheLine(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	keepers := s.keepers(t, 3)
	first, err := keepers[0].Acquire(t.Context(), renewer.Request{Name: "a"})
	require.NoError(t, err)
	line := redisstore.LineKey(redisstore.DefaultPrefix, "a")
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := keepers[1].Acquire(ctx, renewer.Request{Name: "a"})
		left <- err
	}()
	require.Eventually(t, func() bool {
		return s.number(t, "ZCARD", line) == 1
	}, patience, time.Millisecond)
	_, err = keepers[2].Acquire(t.Context(), renewer.Request{Name: "a", MaxWait: time.Second / 2})
	require.ErrorIs(t, err, renewer.ErrBusy)
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
	require.Eventually(t, func() bool {
		return s.number(t, "ZCARD", line) == 0
	}, patience, time.Millisecond)
	_, err = keepers[2].Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
	require.ErrorIs(t, err, renewer.ErrBusy)
	assert.Zero(t, s.number(t, "ZCARD", line), "who will not wait takes no place")
	require.NoError(t, first.Release(t.Context()))
	assert.Zero(t, s.number(t, "EXISTS", line, redisstore.LeaseKey(redisstore.DefaultPrefix, "a")))
}

// Without the rights that lines need waiters are woken all the same.
func TestWithoutALine(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.storeWith(t, redisstore.Rights)
	k := keeperOn(t, store, renewer.Config{TTL: 5 * time.Second})
	first := mine(t, store, claim("a", "a", time.Minute))
	got := make(chan *renewer.Lease)
	go func() {
		if l, err := k.Acquire(context.WithoutCancel(t.Context()), renewer.Request{
			Name: "a", MaxWait: patience,
		}); assert.NoError(t, err) {
			got <- l
		}
	}()
	s.awaitChannels(t, 1)
	begun := time.Now()
	require.Equal(t, contract.StatusHeld, release(t, store, hold("a", "a", 0)).Status)
	second := <-got
	assert.Less(t, time.Since(begun), 2*time.Second)
	assert.Greater(t, second.Fence(), first)
	require.NoError(t, second.Release(t.Context()))
}
