package desk

import (
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// Watch is how the front of a line hears from the store that its name may be
// free. It outlives the front, for its successor.
type Watch struct {
	wake   chan struct{} // a wake-up that has not been read; made when the watch begins
	falses falseWakes
	on     bool
	stop   func() // nil unless the store watches
}

// Wake notes a wake-up, for the front that listens. It does not block.
func (w *Watch) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Began notes how the store is told to stop; nil if it does not watch, so that
// the next front tries again.
func (d *Desk[L]) Began(w *Watch, stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.stop, w.on = stop, stop != nil
}

// Listen is how the front waits before it asks again: wake is nil if nothing
// wakes it, and wake-ups before until are answered then, all of them together.
func (d *Desk[L]) Listen(name contract.Name) (wake <-chan struct{}, until timing.Instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := d.lines.of(name)[name.Text]; q != nil {
		return q.watch.wake, q.watch.falses.until
	}
	return nil, 0
}

// WasFalse notes that the name has not changed hands, though the front was
// woken; or, freed, that it has.
func (d *Desk[L]) WasFalse(name contract.Name, freed bool, now timing.Instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch q := d.lines.of(name)[name.Text]; {
	case q == nil:
	case freed:
		q.watch.falses = falseWakes{}
	default:
		q.watch.falses.add(now)
	}
}

// begin reports whether the caller is to have the store watch: no other has.
func (w *Watch) begin() bool {
	if w.on {
		return false
	}
	w.on = true
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
	return true
}

// end returns what ends the watch at the store; nil if nothing need be.
func (w *Watch) end() (stop func()) {
	stop, w.stop, w.on = w.stop, nil, false
	return stop
}

func (w *Watch) drain() {
	select {
	case <-w.wake:
	default:
	}
}

// The pause after the second wake-up upon which the same holder still had the
// name, and after the next ones in a row, each twice as long as the last.
const (
	firstFalsePause = time.Millisecond
	lastFalsePause  = 250 * time.Millisecond
)

// falseWakes bounds the questions that wake-ups cause. A user of the server who
// may only publish can send wake-ups, and each led to a question to the store:
// 11,000 a second. A wake-up within the pause after a false one is answered at
// the end of the pause, together with all others until then.
type falseWakes struct {
	until timing.Instant // the end of the pause; 0 without one
	any   bool           // there was one since the name was last free
	pause time.Duration
}

// add notes a false one. The first costs nothing, as each watch begins with a
// wake-up.
func (f *falseWakes) add(now timing.Instant) {
	if !f.any {
		f.any = true
		return
	}
	f.pause = min(max(2*f.pause, firstFalsePause), lastFalsePause)
	f.until = now.Add(f.pause)
}
