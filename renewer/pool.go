package renewer

import "sync"

// single lends out slices of one question to the store, to be used
// again: a store does not touch them once it has answered.
type single[Q any] struct{ pool sync.Pool }

func (s *single[Q]) take(question Q) *[1]Q {
	q, ok := s.pool.Get().(*[1]Q)
	if !ok {
		q = new([1]Q)
	}
	q[0] = question
	return q
}

// put takes a slice back, and keeps nothing of the question alive.
func (s *single[Q]) put(q *[1]Q) {
	clear(q[:])
	s.pool.Put(q)
}

var (
	singleClaims single[Claim]
	singleHolds  single[Hold]
)
