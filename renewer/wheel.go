package renewer

import "time"

// wheel orders leases by their next heartbeat: a ring of buckets, each for a short span of
// time. All leases have the same interval, so entering one at its next heartbeat, taking it out
// and moving on cost the same however many there are; in a heap each of them walks through the
// memory of a dozen others. A bucket is not sorted inside. The ring goes round about twice an
// interval; an entry more than a round ahead just waits for its round. Guarded by Keeper.mu.
type wheel struct {
	span    time.Duration
	buckets [wheelSize][]entry
	spare   [][]entry // emptied buckets' memory, for those to be filled next
	n       int
	cursor  int64 // no entry has an earlier tick
}

const (
	wheelSize = 512
	// A lease's place in the wheel is its bucket and its position there, in one number.
	positionBits = 22
	positionMask = 1<<positionBits - 1
	// A bucket of no more than so many entries keeps its memory when it is empty.
	smallBucket = 16
)

// tick is the span that an instant is in. One before the keeper was made, since a grant's Age
// reaches that far back, is in the first.
func (w *wheel) tick(at instant) int64 { return max(0, int64(at)) / int64(w.span) }

// set enters l at an instant, or moves it there.
func (w *wheel) set(l *Lease, at instant) {
	w.remove(l)
	tick := w.tick(at)
	if w.n == 0 || tick < w.cursor {
		w.cursor = tick
	}
	w.n++
	b := tick % wheelSize
	l.place[beats] = int32(b<<positionBits | int64(len(w.buckets[b])))
	if last := len(w.spare) - 1; w.buckets[b] == nil && last >= 0 {
		w.buckets[b], w.spare = w.spare[last], w.spare[:last]
	}
	w.buckets[b] = append(w.buckets[b], entry{at, l})
}

// remove takes l out if it is in.
func (w *wheel) remove(l *Lease) {
	place := l.place[beats]
	if place < 0 {
		return
	}
	b, i := place>>positionBits, int(place&positionMask)
	w.drop(int64(b), i)
}

func (w *wheel) drop(b int64, i int) {
	bucket := w.buckets[b]
	last := len(bucket) - 1
	bucket[i].lease.place[beats] = nowhere
	if i != last {
		bucket[i] = bucket[last]
		bucket[i].lease.place[beats] = int32(b<<positionBits | int64(i))
	}
	bucket[last] = entry{}
	w.buckets[b] = bucket[:last]
	if last == 0 && cap(bucket) > smallBucket {
		w.spare, w.buckets[b] = append(w.spare, bucket[:0]), nil
	}
	w.n--
}

// first is when the earliest lease is due, never if there is none.
func (w *wheel) first() instant {
	if w.n == 0 {
		return never
	}
	for ; ; w.cursor++ {
		earliest := never
		for _, e := range w.buckets[w.cursor%wheelSize] {
			if w.tick(e.at) == w.cursor { // otherwise it is for a later round
				earliest = min(earliest, e.at)
			}
		}
		if earliest != never {
			return earliest
		}
	}
}

// take takes out up to most leases that are due, the earlier spans first, and gives each to f.
func (w *wheel) take(now instant, most int, f func(*Lease)) {
	for most > 0 && w.first() <= now {
		b := w.cursor % wheelSize
		for i := len(w.buckets[b]) - 1; i >= 0 && most > 0; i-- {
			if e := w.buckets[b][i]; e.at <= now {
				w.drop(b, i)
				f(e.lease)
				most--
			}
		}
	}
}
