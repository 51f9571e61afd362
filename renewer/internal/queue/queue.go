package queue

import (
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Queue is that of one name: those who wait behind its front, and what they share. It is made for
// the first waiter, or when the front has to wait for another process, and goes when its name has
// no front any more.
type Queue[L comparable] struct {
	first, last *Waiter[L]
	length      int
	pushed      uint64 // waiters, ever

	Seen  Seen  // what the front last learned of the name
	Watch Watch // on behalf of the front
	// Place is the one from which the store is asked, which keeps its rank when a front leaves; 0
	// as long as none has asked since our last grant.
	Place  uint64
	Queued bool // the store may have it in its line
	// Of a limit: for how many of those behind it the front asks as well, and whether it need
	// not ask itself, as the front before it has asked for it too, in vain. Seen is that answer.
	Also  int
	Asked bool
	Full  Seen // by a front before, for callers whose time is over before the front has an answer
	// Unsettled is when a front that has left asked from it last and was not answered: that may put
	// it there.
	Unsettled timing.Instant
}

// Seen is what was last seen of a lock that is not ours.
type Seen struct {
	Known   bool
	Holder  store.Holder
	HeldFor time.Duration  // by when it was seen
	Since   timing.Instant // when it got the lock; 0 if that is not known
	TTL     time.Duration
	Held    int   // how many have it; 0 for a lock
	Foreign bool  // another program has written its key
	Err     error // the store could not be asked
}

// HeldAt is how long the holder has had the lock at an instant, if it still has it then; 0 if that
// is not known.
func (s Seen) HeldAt(now timing.Instant) time.Duration {
	if s.Since == 0 {
		return 0
	}
	return max(0, now.Sub(s.Since))
}

// Waiter is a caller behind the front.
type Waiter[L comparable] struct {
	L L
	// Answer has room for one: nil means that the caller is at the front now, else it says why it
	// is refused, since it does not wait.
	Answer  chan *Seen
	Try     bool          // does not wait until the lock is free
	MaxHold time.Duration // its own, for a hand-over
	Handed  bool          // the lock, or a slot of the limit, is its own
	After   L             // who was at the front before it, once it is there
	// Limit is how many may have the limit, by the caller's own word; nil for a lock.
	Limit func() int

	queued      bool
	number      uint64 // in order of arrival
	ahead, next *Waiter[L]
}

// Queued reports whether the waiter stands in its queue.
func (w *Waiter[L]) Queued() bool { return w.queued }

// First returns the first waiter; nil if none waits.
func (q *Queue[L]) First() *Waiter[L] { return q.first }

// After returns who waits behind w, which may have left meanwhile; nil if no waiter does.
func (q *Queue[L]) After(w *Waiter[L]) *Waiter[L] {
	if w.queued {
		return w.next
	}
	next := q.first
	for next != nil && next.number < w.number {
		next = next.next
	}
	return next
}

// Len returns how many wait; 0 without a queue.
func (q *Queue[L]) Len() int {
	if q == nil {
		return 0
	}
	return q.length
}

// Push adds a waiter at the end.
func (q *Queue[L]) Push(w *Waiter[L]) {
	q.pushed++
	w.queued, w.number, w.ahead = true, q.pushed, q.last
	if q.last != nil {
		q.last.next = w
	} else {
		q.first = w
	}
	q.last = w
	q.length++
}

// Remove takes a waiter out, wherever it stands.
func (q *Queue[L]) Remove(w *Waiter[L]) {
	if w.ahead != nil {
		w.ahead.next = w.next
	} else {
		q.first = w.next
	}
	if w.next != nil {
		w.next.ahead = w.ahead
	} else {
		q.last = w.ahead
	}
	w.queued, w.ahead, w.next = false, nil, nil
	q.length--
}

// RemoveTries takes out those who do not wait until the lock is free.
func (q *Queue[L]) RemoveTries() (removed []*Waiter[L]) {
	for w := q.first; w != nil; {
		next := w.next
		if w.Try {
			q.Remove(w)
			removed = append(removed, w)
		}
		w = next
	}
	return removed
}
