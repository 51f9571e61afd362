package timing

// Place is where an element stands in a [Wheel]. Each element keeps its own, one for each wheel
// that it may be in, so that it is found at once when it is moved or taken out. Only the wheel
// changes it.
type Place uint32

// Nowhere is the place of an element that is not in. It is the zero value.
const Nowhere Place = 0

// entry is one element and its instant.
type entry[E any] struct {
	at      Instant
	element E
}
