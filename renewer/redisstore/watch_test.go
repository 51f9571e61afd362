package redisstore_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// watched records what a watch hears.
type watched struct {
	stop  func()
	mu    sync.Mutex
	wakes int
	errs  []error
}

func newWatch(s contract.Store, name string) *watched {
	w := &watched{}
	w.stop = s.Watch(name, false, func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if err == nil {
			w.wakes++
		} else {
			w.errs = append(w.errs, err)
		}
	})
	return w
}

func (w *watched) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wakes
}

func (w *watched) errors() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.errs)
}

func (w *watched) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakes, w.errs = 0, nil
}

func (w *watched) await(t testing.TB, why string) {
	t.Helper()
	require.Eventually(t, func() bool { return w.count() > 0 }, patience, time.Millisecond, why)
}

// channels returns how many channels the server has subscribers on.
func (s server) channels(t testing.TB) int {
	t.Helper()
	all, err := s.do(t, "PUBSUB", "CHANNELS").AsStrSlice()
	require.NoError(t, err)
	return len(all)
}

func (s server) awaitChannels(t testing.TB, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return s.channels(t) == n }, patience, 5*time.Millisecond)
}

// A name watched again at once, before the store took note that the
// last watch was gone, is woken as any other.
func TestWatchAgainAtOnce(t *testing.T) {
	t.Parallel()
	withRedis(t, func(t *testing.T, s server) {
		store := s.store(t)
		for range 50 {
			w := newWatch(store, "a")
			w.await(t, "set up")
			w.stop()
			newWatch(store, "a").stop()
		}
		s.awaitChannels(t, 0)
	})
}

func TestWatchSurvivesTheConnection(t *testing.T) {
	t.Parallel()
	for _, resp2 := range []bool{false, true} {
		t.Run(fmt.Sprint("RESP2 ", resp2), func(t *testing.T) {
			t.Parallel()
			_, s := startReal(t)
			s.option.AlwaysRESP2 = resp2
			store := s.store(t)
			one, two := newWatch(store, "a"), newWatch(store, "b")
			for range 3 {
				one.await(t, "set up")
				two.await(t, "set up")
				one.clear()
				two.clear()
				s.ok(t, "CLIENT", "KILL", "TYPE", "pubsub")
				one.await(t, "set up again: a release may have slipped by")
				two.await(t, "set up again")
				assert.Len(t, one.errors(), 1, "and told of it before")
				mine(t, store, claim("a", "a", time.Minute))
				waitedFor(t, store, "a")
				one.clear()
				release(t, store, hold("a", "a", 0))
			}
			one.stop()
			two.stop()
			s.awaitChannels(t, 0)
		})
	}
}

func TestCloseEndsTheSubscription(t *testing.T) {
	t.Parallel()
	withRedis(t, func(t *testing.T, s server) {
		store := s.store(t)
		store.Close()
		store.Close()
		w := newWatch(store, "a")
		require.Eventually(t, func() bool {
			return len(w.errors()) == 1
		}, patience, time.Millisecond, "watch after Close")
		assert.ErrorIs(t, w.errors()[0], redisstore.ErrClosed)
		w.stop()

		var dials, open atomic.Int32
		store, err := redisstore.NewEngine(s.client(t, countDials(&dials, &open)))
		require.NoError(t, err)
		w = newWatch(store, "a")
		w.await(t, "set up")
		before := dials.Load()
		store.Close()
		s.awaitChannels(t, 0)
		require.Eventually(t, func() bool {
			return len(w.errors()) == 1
		}, patience, time.Millisecond)
		assert.ErrorIs(t, w.errors()[0], redisstore.ErrClosed)
		assert.Never(t, func() bool {
			return dials.Load() != before
		}, 200*time.Millisecond, 20*time.Millisecond, "though not stopped")
		w.stop()
		mine(t, store, claim("a", "a", time.Minute)) // the client stays the caller's
	})
}

// wake may call whatever the store has.
func TestWakeCallsBack(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	done := make(chan struct{})
	stop := make(chan func(), 1)
	var once sync.Once
	stop <- store.Watch("a", false, func(error) {
		once.Do(func() {
			(<-stop)()
			store.Watch("b", false, func(error) {})()
			store.Close()
			close(done)
		})
	})
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("deadlock")
	}
	s.awaitChannels(t, 0)
}

// A watch on a server that does not answer returns at once, and so does its
// stop.
func TestWatchNeverWaits(t *testing.T) {
	t.Parallel()
	redis, s := startReal(t)
	store := s.store(t, redisstore.WriteTimeout(100*time.Millisecond))
	require.NoError(t, redis.Stop())
	defer func() { require.NoError(t, redis.Cont()) }()
	started := time.Now()
	w := newWatch(store, "a")
	w.stop()
	store.Close()
	assert.Less(t, time.Since(started), time.Second)
}
