package redisstore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// hearers counts the processes that listen for turns.
func (s server) hearers(t testing.TB) (n int) {
	t.Helper()
	for _, channel := range s.allChannels(t) {
		if strings.Contains(channel, ":inbox") {
			n++
		}
	}
	return n
}

// member is a place of a lock as it stands in the line.
func member(number int, inbox, letter string, ttl time.Duration) string {
	return fmt.Sprintf("%d %s %s %d\nnode-%s\n42\ntest", number, inbox, owner(letter),
		ttl.Milliseconds(), letter)
}

// farKeepers are keepers that don't look for themselves.
func (s server) farKeepers(t *testing.T, n int) []*renewer.Keeper {
	t.Helper()
	all := make([]*renewer.Keeper, n)
	for i := range all {
		store := s.store(t)
		store.LongWait(time.Hour)
		all[i] = keeperOn(t, store,
			renewer.Config{TTL: time.Minute, Poll: time.Minute, Node: fmt.Sprint(i)})
	}
	return all
}

// doomedTTL is that of the leases of those who are doomed.
const doomedTTL = 4 * time.Second

// doomed has a waiter stand in line that never asks again, and returns what
// ends its process: its place stays, and its inbox is heard by none.
func (s server) doomed(t testing.TB) (die func()) {
	t.Helper()
	client := s.client(t)
	store := storeOn(t, client)
	listening(t, store)
	c := queue("z")
	c.Owner, c.TTL = rand.Text()[:contract.OwnerLen], doomedTTL
	require.Eventually(t, func() bool {
		return acquire(t, store, c).Status == contract.StatusQueued
	}, patience, time.Millisecond)
	return func() {
		store.Close()
		client.Close()
	}
}

// crowd has waiters of separate processes stand in line, in the order of
// pattern: L for one that lives, and D for one that is doomed. It returns what
// ends those, all at once.
func (s server) crowd(
	t *testing.T, pattern string, got chan<- *renewer.Lease,
) (die func()) {
	t.Helper()
	keepers := s.farKeepers(t, strings.Count(pattern, "L"))
	var ends []func()
	for _, kind := range pattern {
		if kind == 'L' {
			s.waiters(t, keepers[:1], got)
			keepers = keepers[1:]
			continue
		}
		ends = append(ends, s.doomed(t))
	}
	return func() {
		for _, end := range ends {
			end()
		}
		require.Eventually(t, func() bool {
			return s.hearers(t) == len(pattern)-len(ends)
		}, patience, time.Millisecond)
	}
}

// turns has n waiters have the lock, one after the other, and returns
// who had it, and how long it was nobody's before.
func (s server) turns(
	t *testing.T, n int, free func(), got <-chan *renewer.Lease,
) (nodes []string, idle []time.Duration) {
	t.Helper()
	last := int64(0)
	for range n {
		begun := time.Now()
		free()
		l := next(t, got)
		idle = append(idle, time.Since(begun))
		lines := strings.Split(s.get(t, redisstore.LeaseKey(redisstore.DefaultPrefix, "a")), "\n")
		nodes = append(nodes, lines[3])
		require.Greater(t, l.Fence(), last)
		last = l.Fence()
		free = func() { require.NoError(t, l.Release(t.Context())) }
	}
	free()
	return nodes, idle
}

// first are the names of the first n keepers.
func first(n int) (nodes []string) {
	for i := range n {
		nodes = append(nodes, strconv.Itoa(i))
	}
	return nodes
}

// Processes that were killed while they waited cost the others nothing,
// wherever they stood: the server says that none hears their inboxes.
func TestDeadWaitersArePassedOverAtOnce(t *testing.T) {
	t.Parallel()
	for _, deployment := range []string{"one server", "cluster"} {
		for name, pattern := range map[string]string{
			"the first and another": "DLDL",
			"20 before the others":  strings.Repeat("D", 20) + "LL",
		} {
			if deployment == "cluster" && len(pattern) > 5 {
				continue
			}
			t.Run(deployment+"/"+name, func(t *testing.T) {
				t.Parallel()
				var s server
				if deployment == "cluster" {
					s = startCluster(t)
					if !s.sharded(t) {
						t.Skip("on a cluster such a server can't say who hears an inbox")
					}
				} else {
					_, s = startReal(t)
				}
				holder := s.store(t)
				mine(t, holder, claim("a", "a", minuteTTL))
				got := make(chan *renewer.Lease, 30)
				s.crowd(t, pattern, got)()
				n := strings.Count(pattern, "L")
				nodes, idle := s.turns(t, n, func() {
					require.Equal(t, contract.StatusHeld,
						release(t, holder, hold("a", "a", 0)).Status)
				}, got)
				assert.Equal(t, first(n), nodes, "in the order of their places")
				assert.Less(t, slices.Max(idle), 3*time.Second, "not a TTL: %v", idle)
				assert.Zero(t, s.number(t, "EXISTS",
					redisstore.LeaseKey(redisstore.DefaultPrefix, "a"),
					redisstore.LineKey(redisstore.DefaultPrefix, "a")), "nothing is left")
			})
		}
	}
}

// Waiters that are subscribed, and do nothing with their grants, cost the
// others one TTL in all, however many they are: as a holder does that is stuck.
func TestStuckWaitersCostOneTTL(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	holder := s.store(t)
	mine(t, holder, claim("a", "a", minuteTTL))
	got := make(chan *renewer.Lease, 5)
	s.crowd(t, "DLDLDLDLDL", got) // which do not die
	nodes, idle := s.turns(t, 5, func() {
		require.Equal(t, contract.StatusHeld, release(t, holder, hold("a", "a", 0)).Status)
	}, got)
	assert.ElementsMatch(t, first(5), nodes, "once each")
	slices.Sort(idle)
	assert.Greater(t, idle[4], doomedTTL*9/10, "a TTL: %v", idle)
	assert.Less(t, idle[4], 2*doomedTTL, "one TTL: %v", idle)
	assert.Less(t, idle[3], doomedTTL/2, "and no second: %v", idle)
}

// A place that was passed over by mistake gets its rank back when it asks.
func TestAPlaceKeepsItsRankThoughItWasPassedOver(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	line := redisstore.LineKey(redisstore.DefaultPrefix, "a")
	mine(t, store, claim("a", "a", minuteTTL))
	listening(t, store)
	for _, letter := range []string{"b", "c", "d"} {
		stand(t, store, letter)
	}
	ranks := func() (all []string) {
		places, err := s.do(t, "ZRANGE", line, "0", "-1").AsStrSlice()
		require.NoError(t, err)
		for _, place := range places {
			// without the length of its turn, which follows the link's
			// latest answers
			number, _, _ := strings.Cut(place, " ")
			all = append(all, number)
		}
		return all
	}
	before := ranks()
	require.Len(t, before, 3)
	require.NotContains(t, before, "")
	s.ok(t, "ZPOPMIN", line, "2")
	stand(t, store, "c")
	stand(t, store, "b")
	assert.Equal(t, before, ranks())
}

// A server's clock that is set back lets newcomers overtake until who stands
// there asks next, and no longer.
func TestAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	line := redisstore.LineKey(redisstore.DefaultPrefix, "a")
	mine(t, store, claim("a", "a", minuteTTL))
	listening(t, store)
	stand(t, store, "b")
	place, err := s.do(t, "ZRANGE", line, "0", "0").AsStrSlice()
	require.NoError(t, err)
	// stands for a clock that was an hour ahead when b came
	s.ok(t, "ZADD", line, fmt.Sprint(time.Now().Add(time.Hour).UnixMicro()), place[0])
	for _, letter := range []string{"c", "d", "b", "e"} {
		if letter == "b" { // as its process has heard when it came
			store.Came('b', time.Now().Add(time.Hour).UnixMicro())
		}
		stand(t, store, letter)
	}
	all, err := s.do(t, "ZRANGE", line, "0", "-1").AsStrSlice()
	require.NoError(t, err)
	require.Len(t, all, 4)
	for i, letter := range []string{"c", "d", "b", "e"} {
		assert.Equal(t, strconv.Itoa(int(letter[0])), strings.Fields(all[i])[0])
	}
}

// starts counts the acquires that have begun.
type starts struct {
	renewer.NopObserver

	n atomic.Int64
}

func (s *starts) AcquireStart(ctx context.Context, _ renewer.AcquireStart) context.Context {
	s.n.Add(1)
	return ctx
}

// A place belongs to its process: the successor of a head that leaves has the
// rank.
func TestTheSuccessorOfAHeadHasItsRank(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	holder := s.store(t)
	mine(t, holder, claim("a", "a", minuteTTL))
	var begun starts
	busy := keeperOn(t, s.store(t), renewer.Config{TTL: 5 * time.Second, Observer: &begun})
	waits, leave := context.WithCancel(t.Context())
	left := make(chan error)
	line := redisstore.LineKey(redisstore.DefaultPrefix, "a")
	go func() {
		_, err := busy.Acquire(waits, renewer.Request{Name: "a"})
		left <- err
	}()
	require.Eventually(t, func() bool {
		return s.number(t, "ZCARD", line) == 1
	}, patience, time.Millisecond)
	got := make(chan *renewer.Lease, 30)
	for range 3 {
		go func() {
			if l, err := busy.Acquire(context.WithoutCancel(t.Context()), renewer.Request{
				Name: "a", MaxWait: patience,
			}); assert.NoError(t, err) {
				got <- l
			}
		}()
	}
	require.Eventually(t, func() bool { return begun.n.Load() == 4 }, patience, time.Millisecond)
	rest := make(chan *renewer.Lease)
	s.waiters(t, s.keepers(t, 2), rest)
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
	require.Equal(t, contract.StatusHeld, release(t, holder, hold("a", "a", 0)).Status)
	select {
	case l := <-got:
		require.NoError(t, l.Release(t.Context()))
	case <-rest:
		t.Error("the successor has lost the rank")
	}
	for range 4 {
		select {
		case l := <-got:
			require.NoError(t, l.Release(t.Context()))
		case l := <-rest:
			require.NoError(t, l.Release(t.Context()))
		}
	}
}

// A place of a limit whose process has found meanwhile that the server is far
// away asks for a longer turn than the one that it is given: it is its turn all
// the same.
func TestATurnIsThePlacesHoweverLong(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	slots := slotsKey("a")
	from := func(letter string) contract.Claim {
		c := slotClaim("a", letter, 1)
		c.Place = uint64(letter[0])
		return c
	}
	mine(t, store, slotClaim("a", "a", 1))
	require.Equal(t, contract.StatusTaken, acquire(t, store, from("b")).Status)
	t.Cleanup(store.Watch("a", true, func(error) {}))
	for _, letter := range []string{"b", "c"} {
		require.Eventually(t, func() bool {
			return acquire(t, store, from(letter)).Status == contract.StatusQueued
		}, patience, time.Millisecond)
	}
	require.Equal(t, contract.StatusHeld, release(t, store, holdSlot("a", "a", 0)).Status)
	store.Took(2 * time.Second)
	assert.Equal(t, contract.StatusQueued, acquire(t, store, from("c")).Status)
	assert.Equal(t, int64(1), s.number(t, "ZCARD", slots+":waiters"),
		"one place, which is another's turn")
	require.Equal(t, contract.StatusHeld, acquire(t, store, from("b")).Status)
	require.Equal(t, contract.StatusHeld, release(t, store, holdSlot("a", "b", 0)).Status)
	leaves := holdSlot("a", "c", 0)
	leaves.Place = 'c'
	require.Equal(t, contract.StatusGone, release(t, store, leaves).Status)
	assert.Zero(t, s.number(t, "EXISTS", slots, slots+":waiters"))
}
