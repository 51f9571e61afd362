package wire

import (
	"bytes"
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

const (
	// mostReply bounds one reply, in bytes: four times the longest record.
	mostReply = 64 << 20
	// mostNested bounds how deep replies lie in each other; those of Redis, by
	// less than ten.
	mostNested = 32
	// elementSize is about what the client allocates for each element that a
	// server announces.
	elementSize = 64
)

var errReply = errors.New("redisstore: the server has begun a reply of more than 64 MiB, or of " +
	"an impossible length; is it Redis?")

// lengths looks at what a server sends before the client does. The client
// allocates whatever length is announced, and ends the process where that is
// negative or impossible. So lengths cuts replies as the client does, and
// refuses what it can't cut and what is too large.
type lengths struct {
	kind         byte // of the value whose first line is being read; 0 between values
	number       int64
	minus, digit bool  // what the line has had
	end          bool  // the \r at the line's end
	body         int64 // bytes left of the present value
	size         int64 // of the present reply, nested ones included
	depth        int
	left         [mostNested]int64 // elements to come, by depth
	strange      bool              // it is not RESP, as the client will say
}

// check reads on. After an error it must not be called again.
func (l *lengths) check(b []byte) error {
	for len(b) > 0 && !l.strange {
		if l.body > 0 {
			n := min(l.body, int64(len(b)))
			l.body -= n
			b = b[n:]
			if l.body == 0 {
				l.complete()
			}
			continue
		}
		switch l.kind {
		case 0:
			l.begin(b[0])
			b = b[1:]
		case '+', '-', ':', ',', '(':
			line, rest, whole := bytes.Cut(b, []byte{'\n'})
			l.size += int64(len(line))
			b = rest
			if whole {
				l.complete()
			}
		default:
			if !l.count(b[0]) {
				return errReply
			}
			b = b[1:]
		}
		if l.size > mostReply {
			return errReply
		}
	}
	return nil
}

// begin takes the first byte of a value.
func (l *lengths) begin(kind byte) {
	l.kind, l.number, l.minus, l.digit, l.end = kind, 0, false, false, false
	switch kind {
	case '_', '.':
		l.body = int64(len("\r\n"))
	case '#':
		l.body = int64(len("t\r\n"))
	case '+', '-', ':', ',', '(', '$', '!', '=', '*', '~', '>', '%', '|':
	default:
		l.strange = true
	}
}

// count takes a byte of the line with a value's length, and reports whether it
// may stand there.
func (l *lengths) count(c byte) bool {
	switch {
	case c >= '0' && c <= '9' && !l.end:
		l.number, l.digit = l.number*10+int64(c-'0'), true
		return l.number <= mostReply
	case c == '-' && !l.minus && !l.digit:
		l.minus = true
		return true
	case c == '\r' && l.digit && !l.end:
		l.end = true
		return true
	case c == '\n' && l.end:
		return l.counted()
	default:
		return false
	}
}

// counted takes the length of a value, and reports whether there may be such.
func (l *lengths) counted() bool {
	n := l.number
	switch l.kind {
	case '%':
		n *= 2
	case '|':
		n = 2*n + 1 // the value that it is about goes with it
	}
	switch {
	case l.minus:
		l.complete() // null
		return n == 1 && l.kind != '|'
	case l.kind == '$' || l.kind == '!' || l.kind == '=':
		l.size += n
		l.body = n + int64(len("\r\n"))
	case n == 0:
		l.complete()
	case l.depth == mostNested:
		return false
	default:
		l.size += n * elementSize
		l.left[l.depth] = n
		l.depth++
		l.kind = 0
	}
	return true
}

// complete notes that a value is whole, and so those that it is the last of.
func (l *lengths) complete() {
	for l.kind = 0; l.depth > 0; l.depth-- {
		left := &l.left[l.depth-1]
		*left--
		if *left > 0 {
			return
		}
	}
	l.size = 0
}
