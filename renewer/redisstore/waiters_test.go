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
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/subscription"
)

const minuteTTL = time.Minute

// queue is a claim for a place in the line.
func queue(letter string) renewer.Claim {
	c := claim("a", letter, minuteTTL)
	c.Queue = true
	return c
}

// stand has an owner stand in line: it asks twice, since it is only
// known to be refused when it was.
func stand(t testing.TB, store renewer.Store, letter string) {
	t.Helper()
	for range 2 {
		g := acquire(t, store, queue(letter))
		require.Equal(t, renewer.StatusTaken, g.Status)
		require.True(t, g.Queued)
	}
}

func TestLineScripts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		store := s.store(t)
		lease, fence := redisstore.LockKeys(redisstore.DefaultPrefix, "a")
		line := lease + ":line"
		first := mine(t, store, claim("a", "a", minuteTTL))

		t.Log("who is refused the first time has no place yet, and gets one when it asks again")
		require.Equal(t, renewer.StatusTaken, acquire(t, store, queue("b")).Status)
		assert.Zero(t, s.number(t, "EXISTS", line))
		assert.True(t, acquire(t, store, queue("b")).Queued)
		assert.Equal(t, int64(1), s.number(t, "ZCARD", line))
		s.pttl(t, line, minute, 2*minute)
		stand(t, store, "c")
		stand(t, store, "b")
		stand(t, store, "d")
		assert.Equal(t, int64(3), s.number(t, "ZCARD", line), "one place each")

		t.Log("a release gives the lease to the first, for a moment")
		require.Equal(t, renewer.StatusHeld, release(t, store, hold("a", "a", 0)).Status)
		value := strings.Split(s.get(t, lease), "\n")
		assert.Equal(t, owner("b"), value[0])
		s.pttl(t, lease, 1, 1000)
		g := acquire(t, store, claim("a", "x", minuteTTL))
		assert.Equal(t, renewer.StatusTaken, g.Status)
		assert.Equal(t, renewer.Holder{}, g.Holder, "who has not come yet has not said who it is")

		t.Log("it claims it: as long as a grant, with a token of its own and the tokens that it " +
			"wants")
		c := queue("b")
		c.Reserve, c.Holder = 5, renewer.Holder{Node: "web-2", PID: 7}
		g = acquire(t, store, c)
		require.Equal(t, renewer.Grant{Status: renewer.StatusHeld, Fence: g.Fence, Reserved: 5}, g)
		assert.Greater(t, g.Fence, first)
		assert.Equal(t, strconv.FormatInt(g.Fence+5, 10), s.get(t, fence))
		s.pttl(t, lease, minute-5000, minute)
		assert.Equal(t, renewer.Holder{Node: "web-2", PID: 7},
			acquire(t, store, claim("a", "x", minuteTTL)).Holder)
		again := acquire(t, store, c)
		assert.Equal(t, renewer.StatusHeld, again.Status)
		assert.Equal(t, g.Fence, again.Fence, "one grant")

		t.Log("who gives up its place, or its lease, does not keep the others waiting")
		assert.Equal(t, renewer.StatusTaken, release(t, store, hold("a", "c", 0)).Status)
		assert.Equal(t, int64(1), s.number(t, "ZCARD", line))
		require.Equal(t, renewer.StatusHeld, release(t, store, hold("a", "b", 0)).Status)
		assert.Equal(t, owner("d"), s.get(t, lease)[:22])
		require.Equal(t, renewer.StatusHeld, release(t, store, hold("a", "d", 0)).Status,
			"it has it, though it has not come")
		assert.Zero(t, s.number(t, "EXISTS", lease, line), "nothing is left")

		t.Log("the same lease twice in one release")
		mine(t, store, claim("a", "a", minuteTTL))
		stand(t, store, "b")
		answers := store.Release(t.Context(), []renewer.Hold{hold("a", "a", 0), hold("a", "a", 0)})
		assert.Equal(t, []renewer.Answer{
			{Status: renewer.StatusHeld},
			{Status: renewer.StatusGone},
		}, answers)
		assert.Equal(t, owner("b"), s.get(t, lease)[:22])

		t.Log("a lease that lapsed goes to the caller who asks first, and its place is gone")
		s.ok(t, "DEL", lease)
		mine(t, store, claim("a", "a", minuteTTL))
		stand(t, store, "c")
		s.ok(t, "DEL", lease)
		require.Equal(t, renewer.StatusHeld, acquire(t, store, queue("c")).Status)
		assert.Zero(t, s.number(t, "EXISTS", line))

		t.Log("a counter above which there is nothing: freed for all waiters, who hear of it")
		stand(t, store, "d")
		s.ok(t, "SET", fence, strconv.FormatInt(redisstore.MaxExact, 10))
		require.Equal(t, renewer.StatusHeld, release(t, store, hold("a", "c", 0)).Status)
		assert.Zero(t, s.number(t, "EXISTS", lease))
		rejected(t, acquire(t, store, queue("d")), "fence counter")
	})
}

// keepers are n processes, as it were: each has a store of its own.
func (s server) keepers(t *testing.T, n int) []*renewer.Keeper {
	t.Helper()
	all := make([]*renewer.Keeper, n)
	for i := range all {
		k, err := renewer.New(s.store(t), renewer.Config{TTL: 5 * time.Second, Node: fmt.Sprint(i)})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, k.Shutdown(context.WithoutCancel(t.Context()))) })
		all[i] = k
	}
	return all
}

// waiters wait for the lock, each when the one before it stands in line, and say when they have it.
func (s server) waiters(t *testing.T, keepers []*renewer.Keeper, got chan<- *renewer.Lease) {
	t.Helper()
	line := redisstore.LeaseKey(redisstore.DefaultPrefix, "a") + ":line"
	before := s.number(t, "ZCARD", line)
	for i, k := range keepers {
		go func() {
			if l, err := k.Acquire(context.WithoutCancel(t.Context()), "a",
				renewer.MaxWait(patience)); assert.NoError(t, err) {
				got <- l
			}
		}()
		require.Eventually(t, func() bool {
			return s.number(t, "ZCARD", line) == before+int64(i)+1
		}, patience, time.Millisecond)
	}
}

// In the order in which they came, with three questions to the server for each.
func TestProcessesTakeTurns(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	const n = 20
	keepers := s.keepers(t, n+1)
	first, err := keepers[n].Acquire(t.Context(), "a")
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
	assert.LessOrEqual(t, calls, 3*n+5, "to claim, to free, and the test's own question")
	assert.Zero(t, s.number(t, "EXISTS",
		redisstore.LeaseKey(redisstore.DefaultPrefix, "a")+":line"))
}

// One that has died in the line costs the others a second, not its TTL.
func TestADeadWaiterCostsASecond(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	keepers := s.keepers(t, 3)
	first, err := keepers[2].Acquire(t.Context(), "a")
	require.NoError(t, err)
	dead := s.store(t)
	stand(t, dead, "z")
	got := make(chan *renewer.Lease)
	s.waiters(t, keepers[:2], got)
	begun := time.Now()
	require.NoError(t, first.Release(t.Context()))
	second := <-got
	took := time.Since(begun)
	assert.GreaterOrEqual(t, took, 900*time.Millisecond)
	assert.Less(t, took, 3*time.Second, "without it, the TTL told would be waited for: 5 s")
	require.NoError(t, second.Release(t.Context()))
	require.NoError(t, (<-got).Release(t.Context()))
}

// A waiter who gives up leaves the line.
func TestAWaiterLeavesTheLine(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	keepers := s.keepers(t, 3)
	first, err := keepers[0].Acquire(t.Context(), "a")
	require.NoError(t, err)
	line := redisstore.LeaseKey(redisstore.DefaultPrefix, "a") + ":line"
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := keepers[1].Acquire(ctx, "a")
		left <- err
	}()
	require.Eventually(t, func() bool {
		return s.number(t, "ZCARD", line) == 1
	}, patience, time.Millisecond)
	_, err = keepers[2].Acquire(t.Context(), "a", renewer.MaxWait(50*time.Millisecond))
	require.ErrorIs(t, err, renewer.ErrHeld)
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
	require.Eventually(t, func() bool {
		return s.number(t, "ZCARD", line) == 0
	}, patience, time.Millisecond)
	_, err = keepers[2].TryAcquire(t.Context(), "a")
	require.ErrorIs(t, err, renewer.ErrHeld)
	assert.Zero(t, s.number(t, "ZCARD", line), "who will not wait takes no place")
	require.NoError(t, first.Release(t.Context()))
	assert.Zero(t, s.number(t, "EXISTS", line, redisstore.LeaseKey(redisstore.DefaultPrefix, "a")))
}

// Without the rights that lines need, or when the server forgets
// them, waiters are woken all the same.
func TestWithoutALine(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store, err := redisstore.New(s.user(t, redisstore.DefaultPrefix,
		strings.Fields(redisstore.Rights)...))
	require.NoError(t, err)
	t.Cleanup(store.Close)
	k, err := renewer.New(store, renewer.Config{TTL: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, k.Shutdown(context.WithoutCancel(t.Context()))) })
	first := mine(t, store, claim("a", "a", time.Minute))
	got := make(chan *renewer.Lease)
	go func() {
		if l, err := k.Acquire(context.WithoutCancel(t.Context()), "a",
			renewer.MaxWait(patience)); assert.NoError(t, err) {
			got <- l
		}
	}()
	s.awaitChannels(t, 1)
	begun := time.Now()
	require.Equal(t, renewer.StatusHeld, release(t, store, hold("a", "a", 0)).Status)
	second := <-got
	assert.Less(t, time.Since(begun), 2*time.Second)
	assert.Greater(t, second.Fence(), first)
	require.NoError(t, second.Release(t.Context()))

	full := s.keepers(t, 2)
	third, err := full[0].Acquire(t.Context(), "a")
	require.NoError(t, err)
	s.waiters(t, full[1:], got)
	s.ok(t, "DEL", redisstore.LeaseKey(redisstore.DefaultPrefix, "a")+":line")
	require.NoError(t, third.Release(t.Context()))
	require.NoError(t, (<-got).Release(t.Context()))
}

// An owner is in the set from its first refusal until it has the lock or wants it no more, and only
// if it waits at all.
func TestWaiterSet(t *testing.T) {
	t.Parallel()
	var w redisstore.Waiters
	answer := func(letter string, status renewer.Status, waits bool) renewer.Grant {
		c, grants := queue(letter), []renewer.Grant{{Status: status}}
		c.Queue = waits
		w.Settle([]renewer.Claim{c}, grants)
		return grants[0]
	}
	assert.False(t, answer("a", renewer.StatusTaken, true).Queued)
	assert.False(t, w.Has(owner("a")), "the server has no lines, as far as is known")

	w.Enable()
	assert.False(t, answer("a", renewer.StatusTaken, false).Queued)
	assert.False(t, w.Has(owner("a")), "it does not wait")
	answer("a", renewer.StatusUnknown, true)
	assert.False(t, w.Has(owner("a")), "it was not refused")
	assert.True(t, answer("a", renewer.StatusTaken, true).Queued, "it must be released")
	answer("b", renewer.StatusTaken, true)
	assert.True(t, w.Has(owner("a")))

	a, b := redisstore.PlaceText(owner("a")), redisstore.PlaceText(owner("b"))
	other := redisstore.PlaceText(owner("c"))
	for message, want := range map[string]subscription.Audience{
		"":                subscription.AudienceAll,
		a + " ":           subscription.AudienceUs,
		b + " " + other:   subscription.AudienceUs,
		other + " " + a:   subscription.AudienceUsLater,
		other + " ":       subscription.AudienceOthers,
		other + " " + "x": subscription.AudienceAll,
		a:                 subscription.AudienceAll,
	} {
		assert.Equal(t, want, w.Audience(message), "%q", message)
	}

	answer("a", renewer.StatusHeld, true)
	assert.False(t, w.Has(owner("a")), "it has the lock")
	w.Leave([]renewer.Hold{hold("a", "b", 0)})
	assert.False(t, w.Has(owner("b")), "it wants the lock no more")
	assert.Equal(t, subscription.AudienceOthers, w.Audience(a+" "+b))
}
