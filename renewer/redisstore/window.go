package redisstore

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
)

// errNotSent is why enter has not let a request in.
var errNotSent = errors.New("not sent: its time was over before its turn came, behind others of " +
	"this process")

// window lets so many items of requests be under way at once. The others wait for their turn, in
// order, for as long as their contexts live.
type window struct {
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
func newWindow(most int) *window { return &window{most: most} }

// enter waits until a request of so many items may be sent; then leave must follow. One of
// more items than the window has may be sent alone. The error is errNotSent and that of ctx.
func (w *window) enter(ctx context.Context, items int) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", errNotSent, err)
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
		return nil
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
	return fmt.Errorf("%w: %w", errNotSent, ctx.Err())
}

// leave gives back what enter gave.
func (w *window) leave(items int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used -= items
	w.admit()
}

// admit gives those their turn who are next. Under w.mu.
func (w *window) admit() {
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

// fits reports whether a request may be sent now, if it is the next. Under w.mu.
func (w *window) fits(items int) bool { return w.used == 0 || w.used+items <= w.most }
