package jobtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
)

// testChurn enqueues jobs of two locks and two limits, while servers are
// restarted, one at a time, and holders that are no jobs come and go. A name is
// never idle for long although its jobs wait.
func testChurn(t *testing.T, b *bench) {
	b.ttl = time.Minute // none comes by itself
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	keys, w := []string{"u1", "u2", "u3", "u4"}, newWatch(map[string]int{"u3": 2, "u4": 5})
	serve := func() (stop func()) {
		k := b.keeper()
		stopServer := b.Serve(k, 4, w.run)
		return func() {
			stopServer()
			require.NoError(t, k.Shutdown(context.Background()))
		}
	}
	stops, other := []func(){serve(), serve(), serve()}, b.keeper()
	var holders sync.WaitGroup
	for n := 0; n < 80; <-time.After(time.Duration(r.IntN(100)) * time.Millisecond) {
		key := keys[r.IntN(len(keys))]
		switch r.IntN(8) {
		case 0:
			one := r.IntN(len(stops))
			stops[one]()
			stops[one] = serve()
		case 1:
			// For longer than jobs wait in their workers, or not.
			d := time.Duration(r.IntN(1500)) * time.Millisecond
			holders.Go(func() {
				w.hold(t, other, key, d)
			})
		default:
			for range 1 + r.IntN(8) {
				w.change(key, 0, 1)
				b.Enqueue(Job{Key: key, Limit: w.most[key], Name: fmt.Sprint("job ", n)})
				n++
			}
		}
	}
	holders.Wait()
	require.Eventually(t, func() bool { return b.Left() == 0 }, time.Minute/2, look, "%v", b)
	assert.Zero(t, b.Failed(), "%v", b)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		assert.Zero(t, w.waiting[key], "of %s all ran, each once", key)
		assert.LessOrEqual(t, w.busiest[key], max(w.most[key], 1), "had %s at once", key)
		assert.Less(t, w.longest[key], goesOn, "%s was idle", key)
	}
}

// watch measures for how long there was room under a name although jobs waited
// for it, and how many had it at once.
type watch struct {
	most map[string]int // that may have it at once, if it is a limit

	mu      sync.Mutex
	busy    map[string]int // who have it
	busiest map[string]int // the most of those so far
	waiting map[string]int // jobs
	idle    map[string]time.Time
	longest map[string]time.Duration
}

func newWatch(most map[string]int) *watch {
	return &watch{
		most: most, busy: make(map[string]int), busiest: make(map[string]int),
		waiting: make(map[string]int), idle: make(map[string]time.Time),
		longest: make(map[string]time.Duration),
	}
}

// change notes that so many more have a name, and that so many more jobs wait
// for it.
func (w *watch) change(key string, busy, waiting int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy[key] += busy
	w.busiest[key] = max(w.busiest[key], w.busy[key])
	w.waiting[key] += waiting
	since, was := w.idle[key]
	if was {
		w.longest[key] = max(w.longest[key], time.Since(since))
	}
	if is := w.busy[key] < max(w.most[key], 1) && w.waiting[key] > 0; !is {
		delete(w.idle, key)
	} else if !was {
		w.idle[key] = time.Now()
	}
}

// run is a job's work, which takes a while or none.
func (w *watch) run(_ context.Context, j Job) error {
	w.change(j.Key, 1, -1)
	defer w.change(j.Key, -1, 0)
	all := []int{0, 0, 1, 5, 20, 100, 600} // ms
	<-time.After(time.Duration(all[rand.N(len(all))]) * time.Millisecond)
	return nil
}

// hold has a lock, or a slot, for a while.
func (w *watch) hold(t *testing.T, k *renewer.Keeper, key string, d time.Duration) {
	r := renewer.Request{Name: key}
	if n := w.most[key]; n != 0 {
		r.Limit = func() int { return n }
	}
	lease, err := k.Acquire(context.Background(), r)
	if !assert.NoError(t, err) {
		return
	}
	w.change(key, 1, 0)
	<-time.After(d)
	w.change(key, -1, 0)
	assert.NoError(t, lease.Release(context.Background()))
}
