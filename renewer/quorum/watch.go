package quorum

import (
	"errors"
	"sync"
	"time"
)

// gatherFor is how long the first node's wake-up waits for those of others. A release reaches
// the nodes at different times; who asked when the first is free would find the rest held.
const collectFor = 5 * time.Millisecond

// Watch watches name on all nodes. It calls wake(nil) when as many of
// them say that it may be free as a grant needs, or soon after the
// first if no more do, and wake(err) only when none of them can tell.
func (s *Store) Watch(name string, wake func(error)) (stop func()) {
	w := &watch{
		wake: wake, need: s.write, woken: make([]bool, len(s.nodes)),
		deaf: make([]error, len(s.nodes)),
	}
	stops := make([]func(), len(s.nodes))
	for x := range s.nodes {
		stops[x] = s.nodes[x].store.Watch(name, func(err error) { w.hear(x, err) })
	}
	return func() {
		w.stop()
		for _, stop := range stops {
			stop()
		}
	}
}

// watch puts the wake-ups of several nodes together.
type watch struct {
	wake func(error)
	need int

	mu      sync.Mutex // guards what follows; wake is called without it, since it may call stop
	woken   []bool     // since the last wake-up, by node
	deaf    []error    // why a node can't tell, by node
	told    bool       // that none can
	timer   *time.Timer
	passed  time.Time // when a majority's wake-up was passed on
	rest    bool      // that what has come since are the other nodes', of the same release
	stopped bool
}

func (w *watch) hear(node int, err error) {
	if err != nil {
		w.lost(node, err)
		return
	}
	w.mu.Lock()
	w.deaf[node], w.woken[node], w.told = nil, true, false
	n := 0
	for _, woken := range w.woken {
		if woken {
			n++
		}
	}
	switch {
	case w.stopped:
	case n >= w.need:
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

// reset forgets wake-ups that were passed on. Under w.mu.
func (w *watch) reset() {
	clear(w.woken)
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
