package timing

import "iter"

// DeadlineHeap orders elements exactly by an instant. It is a heap with four children a node, which
// is half as deep as a binary one and keeps siblings in one cache line. An element that ends is
// taken out at once, rather than left to pile up until its time comes.
//
// What it holds true: no entry is later than its children, and each element in it has its own index
// in its place.
//
// It has no lock: its user guards it.
type DeadlineHeap[E any] struct {
	place   func(E) *Place
	entries []entry[E]
}

// NewDeadlineHeap returns an empty heap. place returns where an element keeps its place in it.
func NewDeadlineHeap[E any](place func(E) *Place) *DeadlineHeap[E] {
	return &DeadlineHeap[E]{place: place}
}

// First returns the earliest instant, [Never] if the heap is empty.
func (h *DeadlineHeap[E]) First() Instant {
	if len(h.entries) == 0 {
		return Never
	}
	return h.entries[0].at
}

// Due returns the earliest element if its instant has come by now.
func (h *DeadlineHeap[E]) Due(now Instant) (element E, ok bool) {
	if len(h.entries) == 0 || h.entries[0].at > now {
		return element, false
	}
	return h.entries[0].element, true
}

// Set enters an element at an instant, or moves it there.
func (h *DeadlineHeap[E]) Set(element E, at Instant) {
	place := *h.place(element)
	if place == Nowhere {
		h.entries = append(h.entries, entry[E]{at, element})
		h.up(len(h.entries) - 1)
		return
	}
	i := int(place - 1)
	h.entries[i].at = at
	if !h.down(i) {
		h.up(i)
	}
}

// Remove takes an element out if it is in.
func (h *DeadlineHeap[E]) Remove(element E) {
	place := h.place(element)
	if *place == Nowhere {
		return
	}
	i := int(*place - 1)
	*place = Nowhere
	last := len(h.entries) - 1
	moved := h.entries[last]
	h.entries[last] = entry[E]{}
	h.entries = h.entries[:last]
	if i == last {
		return
	}
	h.put(i, moved)
	if !h.down(i) {
		h.up(i)
	}
}

// All are the elements, in no order.
func (h *DeadlineHeap[E]) All() iter.Seq[E] {
	return func(yield func(E) bool) {
		for _, e := range h.entries {
			if !yield(e.element) {
				return
			}
		}
	}
}

func (h *DeadlineHeap[E]) put(i int, e entry[E]) {
	h.entries[i] = e
	*h.place(e.element) = Place(i + 1)
}

func (h *DeadlineHeap[E]) up(i int) {
	e := h.entries[i]
	for i > 0 {
		parent := (i - 1) / 4
		if h.entries[parent].at <= e.at {
			break
		}
		h.put(i, h.entries[parent])
		i = parent
	}
	h.put(i, e)
}

// down reports whether it moved anything.
func (h *DeadlineHeap[E]) down(i int) bool {
	e, from := h.entries[i], i
	for {
		child := 4*i + 1
		if child >= len(h.entries) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(h.entries)); c++ {
			if h.entries[c].at < h.entries[least].at {
				least = c
			}
		}
		if e.at <= h.entries[least].at {
			break
		}
		h.put(i, h.entries[least])
		i = least
	}
	h.put(i, e)
	return i != from
}
