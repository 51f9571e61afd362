package asking

import (
	"errors"
	"fmt"
	"sync"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// AnswerTo gives the answer to item i of n, if the store has kept its contract and given n of them.
// Otherwise, and if it is unknown without a reason, its Err says so.
func AnswerTo(answers []store.Answer, i, n int) store.Answer {
	if len(answers) != n {
		return store.Answer{Err: errCount(len(answers), n)}
	}
	a := answers[i]
	if a.Status == store.StatusUnknown {
		a.Err = orUnexplained(a.Err)
	}
	return a
}

// GrantOf is AnswerTo for claims.
func GrantOf(grants []store.Grant, i, n int) store.Grant {
	if len(grants) != n {
		return store.Grant{Err: errCount(len(grants), n)}
	}
	g := grants[i]
	if g.Status != store.StatusHeld && g.Status != store.StatusTaken &&
		g.Status != store.StatusQueued {
		g.Err = orUnexplained(g.Err)
	}
	return g
}

func errCount(answers, questions int) error {
	return fmt.Errorf("the store gave %d answers to %d questions", answers, questions)
}

func orUnexplained(err error) error {
	if err == nil {
		return errors.New("the store gave no reason")
	}
	return err
}

// IsAnswer reports whether the store has answered: an error may come from a server that is up, too.
func IsAnswer(status store.Status, err error) bool {
	return status != store.StatusUnknown || errors.Is(err, store.ErrRejected) ||
		errors.Is(err, store.ErrOverloaded)
}

// Single lends out slices of one question to the store, to be used again: a store does not touch
// them once it has answered.
type Single[Q any] struct{ pool sync.Pool }

// Take returns a slice with a question in it.
func (s *Single[Q]) Take(question Q) *[1]Q {
	q, ok := s.pool.Get().(*[1]Q)
	if !ok {
		q = new([1]Q)
	}
	q[0] = question
	return q
}

// Put takes a slice back, and keeps nothing of the question alive.
func (s *Single[Q]) Put(q *[1]Q) {
	clear(q[:])
	s.pool.Put(q)
}
