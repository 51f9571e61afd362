// Package queue orders the callers of this process who want one name. It does no I/O, and knows
// nothing of a lease: L tells them apart.
//
// Its invariant: a name that callers of this process want has one of them at its front, who asks
// the store or has the lock, and every other caller waits behind, in order of arrival. So the
// one that leaves the front makes way for the first waiter, and no waiter is forgotten. Of a limit
// the one at the front asks for a slot, and for the next of those behind it, and leaves when it has
// one; those who ask while nobody waits are in no queue.
package queue

import (
	"hash/maphash"
	"iter"
	"maps"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// Queues are those of all names. The caller guards them with one lock.
type Queues[L comparable] struct {
	fronts map[contract.Name]L
	queues map[contract.Name]*Queue[L] // of the names for which callers wait
	// waited is when one for which callers had waited was last granted, by the name's hash: two
	// names of one hash cost each other a place that need not be.
	waited [256]timing.Instant
	told   [256]bool // whether FirstTime was called, by the name's hash
	seed   maphash.Seed
}

// lately is for how long a name that was waited for is expected to be so again. A store may hear of
// turns for about as long after the last one has waited.
const lately = 2 * time.Second

// New returns queues in which no caller waits.
func New[L comparable]() Queues[L] {
	return Queues[L]{
		fronts: make(map[contract.Name]L), queues: make(map[contract.Name]*Queue[L]),
		seed: maphash.MakeSeed(),
	}
}

// Join puts l at the front of a name that has none, and reports whether it has.
func (qs *Queues[L]) Join(name contract.Name, l L) bool {
	if _, taken := qs.fronts[name]; taken {
		return false
	}
	qs.fronts[name] = l
	return true
}

// Swap puts next at the front of a name instead of l, if l is there.
func (qs *Queues[L]) Swap(name contract.Name, l, next L) {
	if front, there := qs.fronts[name]; there && front == l {
		qs.fronts[name] = next
	}
}

// Front returns who is at the front of a name; the zero value if it has none.
func (qs *Queues[L]) Front(name contract.Name) L { return qs.fronts[name] }

// Fronts returns each name that has a front, with it. A name that comes or goes while they are
// ranged over may be among them, or not; the lock may be given back meanwhile.
func (qs *Queues[L]) Fronts() iter.Seq2[contract.Name, L] { return maps.All(qs.fronts) }

// Names returns how many names have a front.
func (qs *Queues[L]) Names() int { return len(qs.fronts) }

// Of returns the queue of a name; nil if it has none.
func (qs *Queues[L]) Of(name contract.Name) *Queue[L] { return qs.queues[name] }

// Need returns the queue of a name, made if there is none.
func (qs *Queues[L]) Need(name contract.Name) *Queue[L] {
	q := qs.queues[name]
	if q == nil {
		q = new(Queue[L])
		qs.queues[name] = q
	}
	return q
}

// Lately reports whether the name was waited for until a moment ago.
func (qs *Queues[L]) Lately(name contract.Name, now timing.Instant) bool {
	at := *qs.granted(name)
	return at != 0 && now.Sub(at) < lately
}

func (qs *Queues[L]) granted(name contract.Name) *timing.Instant {
	return &qs.waited[qs.hash(name)]
}

func (qs *Queues[L]) hash(name contract.Name) int {
	return int(maphash.String(qs.seed, name.Text) % uint64(len(qs.waited)))
}

// FirstTime reports whether it is called for a name for the first time, for what is said once.
func (qs *Queues[L]) FirstTime(name contract.Name) bool {
	told := &qs.told[qs.hash(name)]
	first := !*told
	*told = true
	return first
}

// KeepPlace leaves the place of l, at the front, to those behind it: l has asked the store from
// it, at an instant, and was not answered. It does nothing if l is not there.
func (qs *Queues[L]) KeepPlace(name contract.Name, l L, place uint64, asked timing.Instant) {
	if place == 0 || qs.fronts[name] != l {
		return
	}
	q := qs.Need(name)
	q.Place, q.Queued, q.Unsettled = place, true, asked
}

// Grant notes that the front of a name has the lock. The waiters returned do not wait until it is
// free: refuse them. unwatch is to be called without the lock.
func (qs *Queues[L]) Grant(
	name contract.Name, now timing.Instant,
) (refused []*Waiter[L], unwatch func()) {
	q := qs.queues[name]
	if q == nil {
		return nil, nothing
	}
	*qs.granted(name) = now
	refused = q.RemoveTries()
	q.Seen, q.Place, q.Queued, q.Unsettled = Seen{}, 0, false, 0
	if q.first != nil {
		return refused, nothing
	}
	delete(qs.queues, name)
	return refused, q.Watch.End()
}

// Pass notes that the front of a name, if it is l, has a slot of it. It is to leave the front then:
// there may be more slots.
func (qs *Queues[L]) Pass(name contract.Name, l L, now timing.Instant) {
	q := qs.queues[name]
	if q == nil || qs.fronts[name] != l {
		return
	}
	if q.Seen.Known { // it had to wait
		*qs.granted(name) = now
	}
	q.Unsettled = 0
	if q.Seen.Known && q.Seen.Err == nil {
		q.Full = q.Seen
	}
	if !q.Asked { // the place is used up
		q.Seen, q.Place, q.Queued = Seen{}, 0, false
	}
}

// Give takes a waiter of a name out of its queue, as one who has a slot, and reports whether it
// waits still.
func (qs *Queues[L]) Give(name contract.Name, w *Waiter[L]) bool {
	if !w.queued {
		return false
	}
	qs.queues[name].Remove(w)
	w.Handed = true
	return true
}

// HandOver puts the first waiter of a name, which must have one, at its front, as the one who has
// the lock.
func (qs *Queues[L]) HandOver(name contract.Name) *Waiter[L] {
	w := qs.advance(name)
	w.Handed = true
	return w
}

// Leave takes l from the front of a name, if it is there, and puts the first waiter there, next,
// which goes on from the place of the one before. If there is none the name is forgotten; over is
// its queue then, nil if it had none.
func (qs *Queues[L]) Leave(name contract.Name, l L) (next *Waiter[L], over *Queue[L]) {
	if front, there := qs.fronts[name]; !there || front != l {
		return nil, nil
	}
	q := qs.queues[name]
	if q == nil || q.first == nil {
		delete(qs.fronts, name)
		delete(qs.queues, name)
		return nil, q
	}
	return qs.advance(name), nil
}

// advance puts the first waiter of a name at its front.
func (qs *Queues[L]) advance(name contract.Name) *Waiter[L] {
	q := qs.queues[name]
	w := q.first
	q.Remove(w)
	w.After = qs.fronts[name]
	qs.fronts[name] = w.L
	return w
}
