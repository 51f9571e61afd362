package queue

import (
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// Watch is how the front of a queue hears from the store that its name may be free. It outlives
// the front, for its successor. Wake and False are the front's; the rest is guarded as the queues
// are.
type Watch struct {
	Wake  chan struct{} // a wake-up that has not been read; made when the watch begins
	False FalseWakes
	on    bool
	stop  func() // nil unless the store watches
}

// Begin reports whether the caller is to have the store watch: no other has.
func (w *Watch) Begin() bool {
	if w.on {
		return false
	}
	w.on = true
	if w.Wake == nil {
		w.Wake = make(chan struct{}, 1)
	}
	return true
}

// Began notes how the store is told to stop; nil if it does not watch, so that the next front tries
// again.
func (w *Watch) Began(stop func()) { w.stop, w.on = stop, stop != nil }

// End returns what ends the watch at the store, to be called without the lock.
func (w *Watch) End() (stop func()) {
	stop, w.stop, w.on = w.stop, nil, false
	if stop == nil {
		return nothing
	}
	return stop
}

func nothing() {}

// The pause after the second wake-up upon which the same holder still had the name, and after the
// next ones in a row, each twice as long as the last.
const (
	firstFalsePause = time.Millisecond
	lastFalsePause  = 250 * time.Millisecond
)

// FalseWakes bounds the questions that wake-ups cause. A user of the server who may only publish
// can send wake-ups, and each led to a question to the store: 11,000 a second. A wake-up within
// the pause after a false one is answered at the end of the pause, together with all others until
// then.
type FalseWakes struct {
	Until timing.Instant // the end of the pause; 0 without one
	any   bool           // there was one since the name was last free
	pause time.Duration
}

// Add notes a false one. The first costs nothing, as each watch begins with a wake-up.
func (f *FalseWakes) Add(now timing.Instant) {
	if !f.any {
		f.any = true
		return
	}
	f.pause = min(max(2*f.pause, firstFalsePause), lastFalsePause)
	f.Until = now.Add(f.pause)
}
