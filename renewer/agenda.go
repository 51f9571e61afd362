package renewer

// agenda orders leases exactly by an instant, the end of belief: a heap with four
// children a node, which is half as deep as a binary one and keeps siblings in
// one cache line. Every lease knows its place, so that one that ends is taken out
// at once rather than left to pile up until its time comes. Guarded by Keeper.mu.
type agenda struct {
	entries []entry
}

type entry struct {
	at    instant
	lease *Lease
}

// The indexes into Lease.place.
const (
	beats = iota // in the wheel
	ends         // in the agenda
	places
)

// nowhere marks a lease that is not there.
const nowhere = int32(-1)

// first is when the earliest lease is due, never if there is none.
func (a *agenda) first() instant {
	if len(a.entries) == 0 {
		return never
	}
	return a.entries[0].at
}

// set enters l at an instant, or moves it there.
func (a *agenda) set(l *Lease, at instant) {
	i := int(l.place[ends])
	if i < 0 {
		a.entries = append(a.entries, entry{at, l})
		a.up(len(a.entries) - 1)
		return
	}
	a.entries[i].at = at
	if !a.down(i) {
		a.up(i)
	}
}

// remove takes l out if it is in.
func (a *agenda) remove(l *Lease) {
	i := int(l.place[ends])
	if i < 0 {
		return
	}
	l.place[ends] = nowhere
	last := len(a.entries) - 1
	moved := a.entries[last]
	a.entries[last] = entry{}
	a.entries = a.entries[:last]
	if i == last {
		return
	}
	a.put(i, moved)
	if !a.down(i) {
		a.up(i)
	}
}

// replace puts next in the place of l, which is in.
func (a *agenda) replace(l, next *Lease) {
	next.place[ends] = l.place[ends]
	a.entries[next.place[ends]].lease = next
	l.place[ends] = nowhere
}

func (a *agenda) put(i int, e entry) {
	a.entries[i] = e
	e.lease.place[ends] = int32(i)
}

func (a *agenda) up(i int) {
	e := a.entries[i]
	for i > 0 {
		parent := (i - 1) / 4
		if a.entries[parent].at <= e.at {
			break
		}
		a.put(i, a.entries[parent])
		i = parent
	}
	a.put(i, e)
}

// down tells whether it moved anything.
func (a *agenda) down(i int) bool {
	e, from := a.entries[i], i
	for {
		child := 4*i + 1
		if child >= len(a.entries) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(a.entries)); c++ {
			if a.entries[c].at < a.entries[least].at {
				least = c
			}
		}
		if e.at <= a.entries[least].at {
			break
		}
		a.put(i, a.entries[least])
		i = least
	}
	a.put(i, e)
	return i != from
}
