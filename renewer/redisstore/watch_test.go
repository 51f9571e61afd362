package redisstore_test

import (
	"slices"
	"sync"
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
