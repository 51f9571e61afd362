// Package books keeps what is under way: calls of Acquire, and leases, of which there may be very
// many; and finds those whose end has come. It knows a lease only by its index here and its end.
//
// Its invariant: a lease is on the books from its grant until its key is free, or the cleaner's; a
// call is on them from when it is in a queue until it has failed, or its lease is on them. No lease
// ends before the bound of its segment.
package books

import "github.com/lockbeat/lockbeat/renewer/internal/timing"

// Books are those of one keeper. The caller guards them with one lock.
type Books[L comparable] struct {
	cfg    Config[L]
	calls  int
	leases []L              // those that were lost included; each has its index from 1 on
	bounds []timing.Instant // of the segments of leases
	idle   chan struct{}    // closes once, when nothing is left; nil until a shutdown asks
}

// Config is what books know of a lease.
type Config[L any] struct {
	Index func(L) *int32         // where it keeps its index, 0 while it is not on the books
	End   func(L) timing.Instant // when belief in it ends; Never if it is not held
}

// New returns empty books.
func New[L comparable](cfg Config[L]) Books[L] { return Books[L]{cfg: cfg} }

// Calls returns how many calls are under way.
func (b *Books[L]) Calls() int { return b.calls }

// Leases returns those on the books, to be read under the lock. Forget puts the last in the place
// of one that goes.
func (b *Books[L]) Leases() []L { return b.leases }

// segment is how many neighbours share a bound. Heartbeats move on the ends of leases, and not the
// bounds. When a bound comes, its segment is looked through for the earliest end, which takes about
// 10 us: that is once in half a TTL, where an order of all ends would cost each lease its place.
const segment = 1024

// CallIn counts a call in.
func (b *Books[L]) CallIn() { b.calls++ }

// CallOut counts a call out.
func (b *Books[L]) CallOut() {
	b.calls--
	b.check()
}

// Enter puts a lease on the books.
func (b *Books[L]) Enter(l L) {
	b.leases = append(b.leases, l)
	*b.cfg.Index(l) = int32(len(b.leases))
	b.Bound(l)
}

// Bound lowers the bound of a lease's segment to its end, if that is earlier.
func (b *Books[L]) Bound(l L) {
	s := int(*b.cfg.Index(l)-1) / segment
	if s == len(b.bounds) {
		b.bounds = append(b.bounds, timing.Never)
	}
	b.bounds[s] = min(b.bounds[s], b.cfg.End(l))
}

// FirstBound is before the end of each lease.
func (b *Books[L]) FirstBound() timing.Instant {
	first := timing.Never
	for _, bound := range b.bounds {
		first = min(first, bound)
	}
	return first
}

// EndDue calls end with each lease whose end has come by now.
func (b *Books[L]) EndDue(now timing.Instant, end func(L)) {
	for s, bound := range b.bounds {
		if bound > now {
			continue
		}
		b.bounds[s] = timing.Never
		from := min(s*segment, len(b.leases))
		for _, l := range b.leases[from:min(from+segment, len(b.leases))] {
			if b.cfg.End(l) <= now {
				end(l)
			}
			b.Bound(l)
		}
	}
}

// Replace puts next in the place of a lease that is on the books.
func (b *Books[L]) Replace(l, next L) {
	index := b.cfg.Index(l)
	b.leases[*index-1] = next
	*b.cfg.Index(next), *index = *index, 0
	b.Bound(next)
}

// Forget takes a lease off the books if it is on them. Its key is free, or disowned before.
func (b *Books[L]) Forget(l L) {
	index := b.cfg.Index(l)
	if *index == 0 {
		return
	}
	last := len(b.leases) - 1
	moved := b.leases[last]
	b.leases[*index-1], *b.cfg.Index(moved) = moved, *index
	var none L
	b.leases[last] = none
	b.leases = b.leases[:last]
	if moved != l {
		b.Bound(moved)
	}
	*index = 0
	b.check()
}

// Empty reports whether neither calls nor leases are left.
func (b *Books[L]) Empty() bool { return b.calls == 0 && len(b.leases) == 0 }

// WhenIdle returns what closes when neither calls nor leases are left. It is called once.
func (b *Books[L]) WhenIdle() <-chan struct{} {
	idle := make(chan struct{})
	b.idle = idle
	b.check()
	return idle
}

func (b *Books[L]) check() {
	if b.idle != nil && b.Empty() {
		close(b.idle)
		b.idle = nil
	}
}
