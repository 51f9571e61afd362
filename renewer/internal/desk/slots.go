package desk

import (
	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// The front of a limit asks the store for those behind it, too: one contender a
// name is right for a lock, which one caller at a time can have. Of a limit it
// would have a process get one slot in each round trip, however many are free.

// mostSlots is for how many behind it a front asks: a script of the store takes
// no more claims of callers who meet.
const mostSlots = 63

// slots is what a line knows of a limit.
type slots struct {
	also  int  // for how many behind it the front asked with success; it asks for one at least
	asked bool // the front before has asked for this one, too, in vain: seen is that answer
	full  Seen // by a front before, for those whose time is over before the front has an answer
}

// Also returns those behind the front for whom it may ask: one, to know whether
// there is more room, and more and more as long as all are granted. They stay
// in line until Give.
func (d *Desk[L]) Also(name contract.Name, l L) (also []*Waiter[L]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.lines.of(name)[name.Text]
	if f := d.fronts.of(name)[name.Text]; q == nil || f.l != l || f.has != asks {
		return nil
	}
	for w := q.first; w != nil && len(also) < max(q.also, 1) && w.plain; w = w.next {
		also = append(also, w)
	}
	return also
}

// Give takes one who waits out of the line, as one who has a slot, of which it
// hears by Waiter.Tell; false if it does not wait any more.
func (d *Desk[L]) Give(w *Waiter[L]) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !w.queued {
		return false
	}
	d.lines.of(w.name)[w.name.Text].remove(w)
	w.Handed = true
	return true
}

// Gave notes how many slots the front was granted for those behind it, all
// being whether it had all that it asked for: then it asks for more the next
// time. Or it had its own, and no more: the next one need not ask at once.
func (d *Desk[L]) Gave(name contract.Name, granted int, all, full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := d.lines.of(name)[name.Text]; q != nil {
		q.asked, q.also = full, granted
		if all {
			q.also = min(2*granted+1, mostSlots)
		}
	}
}

// TakeOver reports whether the front before has asked for this one, too, in
// vain, and what it has heard, from which place.
func (d *Desk[L]) TakeOver(name contract.Name, l L) (seen Seen, place Place, asked bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.lines.of(name)[name.Text]
	if q == nil || !q.asked || d.fronts.of(name)[name.Text].l != l {
		return seen, place, false
	}
	q.asked = false
	return q.seen, q.place, true
}

// gaveSlot notes that the front has a slot. It is to leave then: there may be
// more.
func (d *Desk[L]) gaveSlot(name contract.Name, q *line[L], now timing.Instant) {
	if q.seen.Known { // it had to wait
		*d.granted(name) = now
	}
	if q.seen.Known && q.seen.Err == nil {
		q.full = q.seen
	}
	q.unsettled, q.watch.falses = 0, falseWakes{}
	if !q.asked { // the place is used up
		q.seen, q.place, q.queued = Seen{}, Place{}, false
	}
}
