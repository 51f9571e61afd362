package quorum

import (
	"context"

	"github.com/lockbeat/lockbeat/renewer"
)

// tally counts what nodes answer to the items of a Renew or a Release.
type answerSet struct {
	mine  []int
	no    []int
	taken []bool
	heard [][]renewer.Answer // by node
	open  int                // items not decided
}

func newAnswerSet(items, nodes int) *answerSet {
	counts := make([]int, 2*items)
	return &answerSet{
		mine: counts[:items], no: counts[items:], taken: make([]bool, items),
		heard: make([][]renewer.Answer, nodes), open: items,
	}
}

// add counts a node's answers and tells whether every item is decided:
// keep nodes say yes, or so many say no that the rest are too few.
func (t *answerSet) add(r reply[renewer.Answer], keep int) (decided bool) {
	t.heard[r.node] = r.answers
	spare := len(t.heard) - keep
	r.each(func(i int, a *renewer.Answer) {
		switch a.Status {
		case renewer.StatusHeld:
			t.mine[i]++
			if t.mine[i] == keep {
				t.open--
			}
		case renewer.StatusTaken, renewer.StatusGone:
			t.taken[i] = t.taken[i] || a.Status == renewer.StatusTaken
			t.no[i]++
			if t.no[i] == spare+1 {
				t.open--
			}
		case renewer.StatusUnknown, renewer.StatusBehind:
		}
	})
	return t.open == 0
}

// status is what was decided of an item, or StatusUnknown.
func (t *answerSet) status(i, keep int) renewer.Status {
	switch {
	case t.mine[i] >= keep:
		return renewer.StatusHeld
	case t.no[i] <= len(t.heard)-keep:
		return renewer.StatusUnknown
	case t.taken[i]:
		return renewer.StatusTaken
	default:
		return renewer.StatusGone
	}
}

// answer is a node's to an item, if it has answered.
func (t *answerSet) answer(node, i int) (a renewer.Answer, heard bool) {
	if t.heard[node] == nil {
		return a, false
	}
	return t.heard[node][i], true
}

// errors are those of the nodes that did not tell of an item.
func (t *answerSet) errors(i int) []error {
	errs := make([]error, len(t.heard))
	for x := range errs {
		a, heard := t.answer(x, i)
		switch {
		case !heard:
			errs[x] = errSilent
		case a.Status == renewer.StatusUnknown:
			errs[x] = orStrange(a.Err)
		}
	}
	return errs
}

// ended gives every answer the error of a ctx that has ended.
func ended(ctx context.Context, answers []renewer.Answer) bool {
	err := ctx.Err()
	for i := range answers {
		answers[i].Err = err
	}
	return err != nil
}

func unanswered(err error) renewer.Answer { return renewer.Answer{Err: err} }
