package timing

import (
	"iter"
	"slices"
	"sync/atomic"
	"time"
)

// Wheel is a timing wheel: it orders elements roughly by an instant. It is a
// ring of buckets, each for a short span of time and not sorted inside. All
// leases have the same interval, so entering one at its next heartbeat, taking
// it out and moving on cost the same however many there are; in a heap each of
// them walks through the memory of a dozen others. An element more than a round
// ahead waits in its bucket for its round.
//
// What it holds true: no entry is of an earlier span than the cursor, and
// each element in it has its bucket and its position there in its place.
//
// It has no lock: its user guards it.
type Wheel[E any] struct {
	place   func(E) *Place
	span    time.Duration
	buckets [wheelSize][]entry[E]
	spare   [][]entry[E] // emptied buckets' memory, for those to be filled next
	length  int
	cursor  int64
}

const (
	wheelSize = 512
	// A place is the bucket and the position in it, from 1 on, in one number.
	positionBits = 22
	positionMask = 1<<positionBits - 1
	// A bucket of no more than so many entries keeps its memory when it is
	// empty.
	smallBucket = 16
)

// NewWheel returns an empty wheel that goes round once in a time. place returns
// where an element keeps its place in it.
func NewWheel[E any](round time.Duration, place func(E) *Place) *Wheel[E] {
	return &Wheel[E]{place: place, span: max(round/wheelSize, 1)}
}

// tick is the span that an instant is in. One before the clock was made is in
// the first: an answer with an age reaches that far back.
func (w *Wheel[E]) tick(at Instant) int64 { return max(0, int64(at)) / int64(w.span) }

// Set enters an element at an instant, or moves it there.
func (w *Wheel[E]) Set(element E, at Instant) {
	w.Remove(element)
	tick := w.tick(at)
	if w.length == 0 || tick < w.cursor {
		w.cursor = tick
	}
	w.length++
	b := tick % wheelSize
	if last := len(w.spare) - 1; w.buckets[b] == nil && last >= 0 {
		w.buckets[b], w.spare = w.spare[last], w.spare[:last]
	}
	*w.place(element) = placeIn(b, len(w.buckets[b]))
	w.buckets[b] = append(w.buckets[b], entry[E]{at, element})
}

// placeIn is the place of position i in bucket b.
func placeIn(b int64, i int) Place { return Place(b<<positionBits|int64(i)) + 1 }

// Remove takes an element out if it is in.
func (w *Wheel[E]) Remove(element E) {
	place := *w.place(element)
	if place == Nowhere {
		return
	}
	place--
	w.drop(int64(place>>positionBits), int(place&positionMask))
}

// drop takes out what stands at position i in bucket b.
func (w *Wheel[E]) drop(b int64, i int) {
	bucket := w.buckets[b]
	last := len(bucket) - 1
	*w.place(bucket[i].element) = Nowhere
	if i != last {
		bucket[i] = bucket[last]
		*w.place(bucket[i].element) = placeIn(b, i)
	}
	bucket[last] = entry[E]{}
	w.buckets[b] = bucket[:last]
	if last == 0 && cap(bucket) > smallBucket {
		w.buckets[b] = nil
		if cap(bucket) <= 4*w.length/wheelSize { // else very many came at once
			w.spare = append(w.spare, bucket[:0])
		}
	}
	w.length--
}

// Len returns how many elements are in.
func (w *Wheel[E]) Len() int { return w.length }

// All are the elements, in no order. The one at hand may be taken out, and no
// other be moved.
func (w *Wheel[E]) All() iter.Seq[E] {
	return func(yield func(E) bool) {
		for b := range w.buckets {
			// backwards, since the last is put in the place of one that goes
			for _, e := range slices.Backward(w.buckets[b]) {
				if !yield(e.element) {
					return
				}
			}
		}
	}
}

// First returns the earliest instant, [Never] if the wheel is empty.
func (w *Wheel[E]) First() Instant {
	if w.length == 0 {
		return Never
	}
	for ; ; w.cursor++ {
		earliest := Never
		for _, e := range w.buckets[w.cursor%wheelSize] {
			if w.tick(e.at) == w.cursor { // otherwise it is for a later round
				earliest = min(earliest, e.at)
			}
		}
		if earliest != Never {
			return earliest
		}
	}
}

// Take takes out up to most elements that are due by now, the earlier spans
// first, and calls f with each, which may enter it for later than now.
func (w *Wheel[E]) Take(now Instant, most int, f func(E)) {
	for most > 0 && w.First() <= now {
		b := w.cursor % wheelSize
		for i := len(w.buckets[b]) - 1; i >= 0 && most > 0; i-- {
			if e := w.buckets[b][i]; e.at <= now {
				w.drop(b, i)
				f(e.element)
				most--
			}
		}
	}
}

// Place is where an element stands in a [Wheel]. Each element keeps its own,
// one for each wheel that it may be in, so that it is found at once when it is
// moved or taken out. Only the wheel changes it.
type Place uint32

// Nowhere is the place of an element that is not in. It is the zero value.
const Nowhere Place = 0

// entry is one element and its instant.
type entry[E any] struct {
	at      Instant
	element E
}

// Loop steps at instants: a step does what is due, and returns when something
// is due next.
//
// What it holds true: no instant that was given to [Loop.WakeBy] or returned by
// a step passes without a step at it or after it.
//
// It is woken seldom. It steps when its instant has come, even if what was due
// then is gone; so leases that come and go within an interval wake no
// goroutine. All methods may be called concurrently.
type Loop struct {
	clock *Clock
	at    atomic.Int64  // the instant of the next step; at first 0, which has come
	wake  chan struct{} // at has become earlier, or the loop is over
	over  atomic.Bool
}

// NewLoop returns a loop that has not begun.
func NewLoop(clock *Clock) *Loop { return &Loop{clock: clock, wake: make(chan struct{}, 1)} }

// WakeBy has the loop step at an instant, or before. Call it when the next step
// can see what is due then: after it was entered, or under the lock under which
// it is.
func (l *Loop) WakeBy(at Instant) {
	if l.lower(at) {
		l.signal()
	}
}

// lower makes the instant of the next step no later than at, and reports
// whether it was later.
func (l *Loop) lower(at Instant) bool {
	for {
		old := l.at.Load()
		if int64(at) >= old {
			return false
		}
		if l.at.CompareAndSwap(old, int64(at)) {
			return true
		}
	}
}

func (l *Loop) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // a signal is there already
	}
}

// Stop ends the loop after the step that is under way, if any.
func (l *Loop) Stop() {
	l.over.Store(true)
	l.signal()
}

// Run steps until Stop, at once for the first time. Only one goroutine may
// call it. A step reads the clock itself, under whichever lock it needs.
func (l *Loop) Run(step func() (next Instant)) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for !l.over.Load() {
		now, next := l.clock.Recent(), Instant(l.at.Load())
		if now >= next {
			// before the step, so that an instant given meanwhile is not
			// forgotten
			l.at.Store(int64(Never))
			l.lower(step())
			continue
		}
		timer.Reset(min(next.Sub(now), time.Hour))
		select {
		case <-timer.C:
		case <-l.wake:
		}
	}
}
