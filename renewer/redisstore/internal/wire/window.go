package wire

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrNotSent is why enter has not let a request in.
var ErrNotSent = errors.New("its time was over before its turn came, behind others of this process")

// Window lets at most so many items of requests be under way at once. The
// others wait for their turn, in the order in which they came, for as long as
// their contexts live.
type Window struct {
	most int

	mu    sync.Mutex
	used  int
	queue list.List // of *turn
}

// turn is a request that waits.
type turn struct {
	items int
	come  chan struct{} // closed when it may be sent
}

// newWindow returns a window for most items.
func newWindow(most int) *Window { return &Window{most: most} }

// enter waits until a request of so many items may be sent; then leave must
// follow. One of more items than the window has may be sent alone. The error is
// [ErrNotSent] and that of ctx.
func (w *Window) enter(ctx context.Context, items int) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	w.mu.Lock()
	if w.queue.Len() == 0 && w.fits(items) {
		w.used += items
		w.mu.Unlock()
		return nil
	}
	t := &turn{items: items, come: make(chan struct{})}
	place := w.queue.PushBack(t)
	w.mu.Unlock()
	select {
	case <-t.come:
		if ctx.Err() == nil {
			return nil
		}
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-t.come: // at the same moment
		w.used -= items
	default:
		w.queue.Remove(place)
	}
	w.admit()
	return fmt.Errorf("%w: %w", ErrNotSent, ctx.Err())
}

// leave gives back what enter gave.
func (w *Window) leave(items int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used -= items
	w.admit()
}

// admit gives those their turn who are next. Under w.mu.
func (w *Window) admit() {
	for place := w.queue.Front(); place != nil; place = w.queue.Front() {
		next := place.Value.(*turn) //nolint:forcetypeassert // nothing else is in it
		if !w.fits(next.items) {
			return
		}
		w.queue.Remove(place)
		w.used += next.items
		close(next.come)
	}
}

// fits reports whether a request may be sent now, if it is the next. Under
// w.mu.
func (w *Window) fits(items int) bool { return w.used == 0 || w.used+items <= w.most }

// How many locks one process asks a server for at the same time, or frees, or
// how many records it reads and writes: each kind has a window of its own, and
// heartbeats have none. All go over one connection, so that a heartbeat waits
// for all that was put on it before. So many take the server some milliseconds;
// a crowd of 100,000 callers, each of whom sends at once, would take longer
// than a heartbeat may. Those who wait for their turn share commands meanwhile.
const (
	// MostUnderWay is for callers who share commands. It keeps a server busy
	// that is 10 ms away.
	MostUnderWay = 1024
	// MostAlone is for locks of which each has a command of its own, as on a
	// cluster. All kinds together leave the client room for heartbeats: it has
	// at most 1,024 commands unanswered.
	MostAlone = 256
)

// ScanStep is about how many keys, or fields of a hash, a server looks at for
// one command: some 0.1 ms, and 0.3 ms on a slow machine.
const ScanStep = 250

// Windows has one window for each shard, so that a server that does not answer
// holds up no requests to another one.
type Windows struct {
	Most    int
	byShard sync.Map // of *Window
}

// Of is the window of a shard.
func (w *Windows) Of(shard int) *Window {
	one, ok := w.byShard.Load(shard)
	if !ok {
		one, _ = w.byShard.LoadOrStore(shard, newWindow(w.Most))
	}
	return one.(*Window) //nolint:forcetypeassert // nothing else is in it
}

// Under reports how many items are under way, and how many requests wait for
// their turn.
func (w *Window) Under() (way, waiting int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used, w.queue.Len()
}
