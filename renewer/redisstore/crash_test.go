package redisstore_test

import (
	"context"
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

// turnOf is how long a turn a place in the line asks for, by its rank; of the last one it is -1.
func (s server) turnOf(t testing.TB, rank int) time.Duration {
	t.Helper()
	at := strconv.Itoa(rank)
	places, err := s.do(t, "ZRANGE", redisstore.LineKey(redisstore.DefaultPrefix, "a"), at,
		at).AsStrSlice()
	require.NoError(t, err)
	require.Len(t, places, 1)
	ms, err := strconv.Atoi(strings.Fields(places[0])[2])
	require.NoError(t, err)
	return time.Duration(ms) * time.Millisecond
}

// farKeepers are keepers whose places have turns of 8 s or more, as if the server were far away,
// and that don't look for themselves meanwhile.
func (s server) farKeepers(t *testing.T, n int) []*renewer.Keeper {
	t.Helper()
	all := make([]*renewer.Keeper, n)
	for i := range all {
		store := s.store(t)
		store.Took(4 * time.Second)
		store.LongWait(time.Hour)
		k, err := renewer.New(store,
			renewer.Config{TTL: time.Minute, Poll: time.Minute, Node: fmt.Sprint(i)})
		require.NoError(t, err)
		shutDown(t, k, store)
		all[i] = k
	}
	return all
}

// doomed has a waiter stand in line that never asks again, and returns what ends its process: its
// place stays, with a turn of 4 s, or more on a busy machine, and its inbox is heard by none.
func (s server) doomed(t testing.TB) (die func()) {
	t.Helper()
	client := s.client(t)
	store, err := redisstore.NewEngine(client)
	require.NoError(t, err)
	t.Cleanup(store.Close)
	store.Took(1500 * time.Millisecond)
	listening(t, store)
	stand(t, store, "z")
	return func() {
		store.Close()
		client.Close()
	}
}

// crowd has waiters of separate processes stand in line, in the order of pattern: L for one that
// lives, and D for one that is doomed. It returns what ends those, all at once.
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

// Processes that were killed while they waited cost the others nothing, wherever they stood: the
// server says that none hears their inboxes.
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
				assert.Less(t, slices.Max(idle), 3*time.Second, "not a turn: %v", idle)
				assert.Zero(t, s.number(t, "EXISTS",
					redisstore.LeaseKey(redisstore.DefaultPrefix, "a"),
					redisstore.LineKey(redisstore.DefaultPrefix, "a")), "nothing is left")
			})
		}
	}
}

// Waiters that are subscribed, and do not ask when it is their turn, cost the others one turn in
// all, however many they are.
func TestStuckWaitersCostOneTurn(t *testing.T) {
	t.Parallel()
	for name, pattern := range map[string]string{
		"five among others": "DLDLDLDLDL", "thirty": strings.Repeat("D", 30) + "LL",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, s := startReal(t)
			holder := s.store(t)
			mine(t, holder, claim("a", "a", minuteTTL))
			got := make(chan *renewer.Lease, 30)
			s.crowd(t, pattern, got) // which do not die
			turn := s.turnOf(t, strings.Index(pattern, "D"))
			n := strings.Count(pattern, "L")
			nodes, idle := s.turns(t, n, func() {
				require.Equal(t, contract.StatusHeld, release(t, holder, hold("a", "a", 0)).Status)
			}, got)
			assert.ElementsMatch(t, first(n), nodes, "once each")
			slices.Sort(idle)
			assert.Greater(t, idle[n-1], turn*9/10, "a turn: %v", idle)
			assert.Less(t, idle[n-1], 2*turn, "one turn: %v", idle)
			assert.Less(t, idle[n-2], turn/2, "and no second: %v", idle)
		})
	}
}

// A turn that lapses gives the lock to the first to ask; a late claim by the place that had the
// turn is behind the others.
func TestALapsedTurnIsNoLease(t *testing.T) {
	t.Parallel()
	withRedis(t, func(t *testing.T, s server) {
		store := s.store(t)
		lease := redisstore.LeaseKey(redisstore.DefaultPrefix, "a")
		mine(t, store, claim("a", "a", minuteTTL))
		listening(t, store)
		stand(t, store, "b")
		stand(t, store, "c")
		require.Equal(t, contract.StatusHeld, release(t, store, hold("a", "a", 0)).Status)
		s.ok(t, "PEXPIRE", lease, "2001")
		g := acquire(t, store, claim("a", "x", minuteTTL))
		if g.Status == contract.StatusTaken { // the last ms of the turn, if this machine was quick
			assert.LessOrEqual(t, g.TTL, time.Millisecond)
			s.ok(t, "PEXPIRE", lease, "2000")
			g = acquire(t, store, claim("a", "x", minuteTTL))
		}
		require.Equal(t, contract.StatusHeld, g.Status)
		g = acquire(t, store, queue("b"))
		assert.Equal(t, contract.StatusQueued, g.Status)
		assert.Equal(t, contract.Holder{Node: "node-x", PID: 42, Operation: "test"}, g.Holder)
	})
}

// A place that was passed over by mistake gets its rank back when it asks.
func TestAPlaceKeepsItsRankThoughItWasPassedOver(t *testing.T) {
	t.Parallel()
	withRedis(t, func(t *testing.T, s server) {
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
				// without the length of its turn, which follows the link's latest answers
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
	})
}

// A server's clock that is set back lets no newcomer overtake.
func TestNewcomersAreBehindThoughTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	withRedis(t, func(t *testing.T, s server) {
		store := s.store(t)
		line := redisstore.LineKey(redisstore.DefaultPrefix, "a")
		mine(t, store, claim("a", "a", minuteTTL))
		listening(t, store)
		stand(t, store, "b")
		place, err := s.do(t, "ZRANGE", line, "0", "0").AsStrSlice()
		require.NoError(t, err)
		// stands for a clock that was an hour ahead when b came
		s.ok(t, "ZADD", line, fmt.Sprint(time.Now().Add(time.Hour).UnixMicro()), place[0])
		for _, letter := range []string{"c", "d", "e"} {
			stand(t, store, letter)
		}
		all, err := s.do(t, "ZRANGE", line, "0", "-1").AsStrSlice()
		require.NoError(t, err)
		for i, letter := range []string{"b", "c", "d", "e"} {
			assert.Equal(t, strconv.Itoa(int(letter[0])), strings.Fields(all[i])[0])
		}
	})
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

// A place belongs to its process: the successor of a head that leaves has the rank.
func TestTheSuccessorOfAHeadHasItsRank(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	holder := s.store(t)
	mine(t, holder, claim("a", "a", minuteTTL))
	var begun starts
	store := s.store(t)
	busy, err := renewer.New(store, renewer.Config{TTL: 5 * time.Second, Observer: &begun})
	require.NoError(t, err)
	shutDown(t, busy, store)
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

// A place whose process has found meanwhile that the server is far away asks for a longer turn than
// the one that it is given: it is its turn all the same.
func TestATurnIsThePlacesHoweverLong(t *testing.T) {
	t.Parallel()
	withRedis(t, func(t *testing.T, s server) {
		store := s.store(t)
		lease := redisstore.LeaseKey(redisstore.DefaultPrefix, "a")
		line := redisstore.LineKey(redisstore.DefaultPrefix, "a")
		mine(t, store, claim("a", "a", minuteTTL))
		listening(t, store)
		stand(t, store, "b")
		stand(t, store, "c")
		require.Equal(t, contract.StatusHeld, release(t, store, hold("a", "a", 0)).Status)
		store.Took(2 * time.Second)
		assert.Equal(t, contract.StatusQueued, acquire(t, store, queue("c")).Status)
		assert.Equal(t, int64(1), s.number(t, "ZCARD", line), "one place, which is another's turn")
		require.Equal(t, contract.StatusHeld, acquire(t, store, queue("b")).Status)
		require.Equal(t, contract.StatusHeld, release(t, store, hold("a", "b", 0)).Status)
		require.Equal(t, contract.StatusGone, release(t, store, leaving("c")).Status)
		assert.Zero(t, s.number(t, "EXISTS", lease, line))
	})
}

// What is no place of ours is passed over, also if its inbox is heard, and gives no rank.
func TestForgedPlacesOfALiveInbox(t *testing.T) {
	t.Parallel()
	withRedis(t, func(t *testing.T, s server) {
		store := s.store(t)
		line := redisstore.LineKey(redisstore.DefaultPrefix, "a")
		mine(t, store, claim("a", "a", minuteTTL))
		listening(t, store)
		stand(t, store, "b")
		stood, err := s.do(t, "ZRANGE", line, "0", "0").AsStrSlice()
		require.NoError(t, err)
		words := strings.Fields(stood[0])
		for _, turn := range []string{"0", "00000", "1", "999", "99999", "1001", "-1000", ""} {
			s.ok(t, "ZADD", line, "1", "7 "+words[1]+" "+turn)
		}
		s.ok(t, "ZADD", line, "inf", "8 "+words[1]+" 1000")
		stand(t, store, "c")
		require.Equal(t, contract.StatusHeld, release(t, store, hold("a", "a", 0)).Status)
		require.Equal(t, contract.StatusHeld, acquire(t, store, queue("b")).Status)
	})
}
