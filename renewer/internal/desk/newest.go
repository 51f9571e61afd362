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
