package quorum

import (
	"errors"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// collectFor is how long the first node's wake-up waits for those of others. A
// release reaches the nodes at different times; a caller that asked when the
// first is free would find the rest held.
const collectFor = 5 * time.Millisecond

// Watch watches name on all nodes. It calls wake(nil) when as many of them say
// that it may be free as a grant needs, or soon after the first if no more do,
// and wake(err) only when none of them can tell.
func (s *engine) Watch(name string, limit bool, wake func(error)) (stop func()) {
	n := len(s.nodes.all)
	w := &watch{wake: wake, woken: make([]bool, n), deaf: make([]error, n)}
	w.reset()
	stops := make([]func(), n)
	for x := range stops {
		stops[x] = s.nodes.all[x].store.Watch(name, limit, func(err error) {
			if err != nil {
				w.lost(x, err)
			} else {
				w.hear(x)
			}
		})
	}
	return func() {
		w.stop()
		for _, stop := range stops {
			stop()
		}
	}
}

// watch puts the wake-ups of several nodes together. Invariant: free counts the
// nodes that woken has, those since the last wake-up that was passed on.
type watch struct {
	wake func(error)

	mu      sync.Mutex // guards what follows; wake is called without it, since it may call stop
	woken   []bool     // by node
	free    majority
	deaf    []error // why a node can't tell, by node
	told    bool    // that none can
	timer   *time.Timer
	passed  time.Time // when a majority's wake-up was passed on
	rest    bool      // that what has come since are the other nodes', of the same release
	stopped bool
}

// hear notes that the name may be free on a node.
func (w *watch) hear(node int) {
	w.mu.Lock()
	w.deaf[node], w.told = nil, false
	if !w.woken[node] {
		w.woken[node] = true
		w.free.count(store.StatusHeld)
	}
	switch {
	case w.stopped:
	case w.free.reached():
		w.reset()
		w.passed = time.Now()
		w.mu.Unlock()
		w.wake(nil)
		return
	case w.timer == nil:
		w.rest = time.Since(w.passed) < collectFor
		w.timer = time.AfterFunc(collectFor, w.flush)
	}
	w.mu.Unlock()
}

// flush wakes though only a few nodes have, unless a majority has just before.
func (w *watch) flush() {
	w.mu.Lock()
	due := w.timer != nil && !w.stopped && !w.rest // no timer: enough have come just now
	w.reset()
	w.mu.Unlock()
	if due {
		w.wake(nil)
	}
}

// lost notes that a node can't tell.
func (w *watch) lost(node int, err error) {
	w.mu.Lock()
	w.deaf[node] = err
	none := !w.stopped && !w.told
	for _, err := range w.deaf {
		none = none && err != nil
	}
	w.told = w.told || none
	all := errors.Join(w.deaf...)
	w.mu.Unlock()
	if none {
		w.wake(all)
	}
}

// reset forgets the wake-ups that were passed on. Under w.mu.
func (w *watch) reset() {
	clear(w.woken)
	w.free = newMajority(len(w.woken))
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}

func (w *watch) stop() {
	w.mu.Lock()
	w.stopped = true
	w.reset()
	w.mu.Unlock()
}
