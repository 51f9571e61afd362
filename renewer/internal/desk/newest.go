package desk

import (
	"slices"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// Newest is a caller of whom none but the newest of its kind is to wait for a
// name. Make one with NewNewest.
type Newest struct {
	// Nudge is told when a newer one may have come, here or elsewhere.
	Nudge chan struct{}

	of     *newestOf
	rank   int64
	ousted bool
	// made is when it came, or later, when the store last heard of an older one
	// here. The store may take that one for as new as it is, and refuse this
	// one.
	made timing.Instant
}

// newestOf are those of one name.
type newestOf struct {
	all []*Newest
	// asking is full while the store is being asked for one of them: the next
	// asks when that is answered, or what has come later here could come
	// earlier there, and neither would be the newest.
	asking chan struct{}
	heard  timing.Instant // when the store last heard of one of them
}

// NewNewest makes one that is to join.
func NewNewest() *Newest { return &Newest{Nudge: make(chan struct{}, 1)} }

// Tell has a caller find out whether it is the newest.
func (n *Newest) Tell() {
	select {
	case n.Nudge <- struct{}{}:
	default:
	}
}

// Asking has room for one: fill it while the store is asked. It is there once n
// has joined.
func (n *Newest) Asking() chan struct{} { return n.of.asking }

// outranked reports whether one of a greater rank has the name, or waits for it
// as the newest.
func (d *Desk[L]) outranked(name contract.Name, rank int64) bool {
	if rank == 0 {
		return false
	}
	if f, there := d.fronts.of(name)[name.Text]; there && f.has != asks && f.rank > rank {
		return true
	}
	all := d.newest.of(name)[name.Text]
	return all != nil && slices.ContainsFunc(all.all, func(n *Newest) bool { return n.rank > rank })
}

// oust makes way for n, which came at an instant: those of its kind who are
// here are not the newest any more.
func (d *Desk[L]) oust(name contract.Name, n *Newest, rank int64, now timing.Instant) {
	all := d.newest.of(name)[name.Text]
	if all == nil {
		all = &newestOf{asking: make(chan struct{}, 1)}
		d.newest.of(name)[name.Text] = all
	}
	for _, o := range all.all {
		o.ousted = true
		o.Tell()
	}
	all.all = append(all.all, n)
	n.of, n.rank, n.made = all, rank, max(now, all.heard)
}

// Ousted reports whether a newer one has come here.
func (d *Desk[L]) Ousted(n *Newest) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return n.ousted
}

// Made is when n came, as the store is to be told.
func (d *Desk[L]) Made(n *Newest) timing.Instant {
	d.mu.Lock()
	defer d.mu.Unlock()
	return n.made
}

// Heard notes that the store has heard of n by now, or may have.
func (d *Desk[L]) Heard(n *Newest, now timing.Instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n.of.heard = now
	for i := slices.Index(n.of.all, n) + 1; i < len(n.of.all); i++ {
		n.of.all[i].made = now
	}
}

// Nudge has all of a name find out whether they are the newest.
func (d *Desk[L]) Nudge(name contract.Name) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if all := d.newest.of(name)[name.Text]; all != nil {
		for _, n := range all.all {
			n.Tell()
		}
	}
}

// Forget forgets one that waits no more.
func (d *Desk[L]) Forget(name contract.Name, n *Newest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.newest.of(name)[name.Text]
	if all == nil {
		return
	}
	all.all = slices.DeleteFunc(all.all, func(o *Newest) bool { return o == n })
	if len(all.all) == 0 {
		delete(d.newest.of(name), name.Text)
	}
}

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
