package quorum

import (
	"context"
	"slices"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// answerSet has the nodes' answers to the items of one Renew or Release.
// Invariant: open is the number of items that are not decided: neither do
// enough nodes confirm, nor do so many refuse that the others are too few.
type answerSet struct {
	counts []majority
	heard  [][]store.Answer // by node
	open   int
}

func newAnswerSet(items, nodes int) *answerSet {
	return &answerSet{
		counts: slices.Repeat([]majority{newMajority(nodes)}, items),
		heard:  make([][]store.Answer, nodes), open: items,
	}
}

// askAll puts holds to all nodes at once, and waits until each is decided or
// ctx ends. record hears each node's answers, late ones too.
func askAll(
	ctx context.Context, nodes *nodeSet, holds []store.Hold,
	put func(contract.Proposer, context.Context, []store.Hold) []store.Answer,
	record func(*broadcast[store.Answer], reply[store.Answer]),
) (*broadcast[store.Answer], *answerSet) {
	p, t := newBroadcast(ctx, nodes, record), newAnswerSet(len(holds), len(nodes.all))
	for x := range nodes.all {
		p.ask(x, nil, len(holds), func(ctx context.Context, node contract.Proposer) []store.Answer {
			return put(node, ctx, holds)
		}, unanswered)
	}
	// if ctx ends, what was not answered by then says so
	_ = p.listen(ctx, func(r reply[store.Answer]) bool {
		record(p, r)
		return t.add(r)
	})
	return p, t
}

// add counts a node's answers, and reports whether every item is decided.
func (t *answerSet) add(r reply[store.Answer]) (decided bool) {
	t.heard[r.node] = r.answers
	r.each(func(i int, a *store.Answer) {
		m := &t.counts[i]
		was := m.reached() || m.refused()
		m.count(a.Status)
		if !was && (m.reached() || m.refused()) {
			t.open--
		}
	})
	return t.open == 0
}

// status is what was decided of an item, or StatusUnknown.
func (t *answerSet) status(i int) store.Status {
	switch m := &t.counts[i]; {
	case m.reached():
		return store.StatusHeld
	case !m.refused():
		return store.StatusUnknown
	case m.taken > 0:
		return store.StatusTaken
	default:
		return store.StatusGone
	}
}

// taken is the answer for an item that is not its owner's any more. It names
// the holder that a node has told of. Of a name that no owner has on any of
// them, another program has it.
func (t *answerSet) taken(i int) store.Answer {
	taken := store.Answer{Status: t.status(i)}
	owners, foreign := 0, 0
	for x := range t.heard {
		switch a, _ := t.answer(x, i); {
		case a.Status != store.StatusTaken:
		case a.Foreign:
			foreign++
		default:
			owners++
			if taken.Holder == nil {
				taken.Holder = a.Holder
			}
		}
	}
	taken.Foreign = owners == 0 && foreign > 0
	return taken
}

// answer is a node's to an item, if it has answered.
func (t *answerSet) answer(node, i int) (a store.Answer, heard bool) {
	if t.heard[node] == nil {
		return a, false
	}
	return t.heard[node][i], true
}

// unreachable is the error of an item that was not decided.
func (t *answerSet) unreachable(
	ctx context.Context, op string, nodes *nodeSet, i int,
) error {
	errs := make([]error, len(t.heard))
	for x := range errs {
		a, heard := t.answer(x, i)
		switch {
		case !heard:
			errs[x] = errSilent
		case a.Status == store.StatusUnknown:
			errs[x] = orStrange(a.Err)
		}
	}
	return newUnreachable(ctx, op, nodes, t.counts[i], errs)
}

// ended gives every answer the error of ctx, if it has ended.
func ended(ctx context.Context, answers []store.Answer) bool {
	err := ctx.Err()
	for i := range answers {
		answers[i].Err = err
	}
	return err != nil
}

func unanswered(err error) store.Answer { return store.Answer{Err: err} }

func ungranted(err error) store.Grant { return store.Grant{Err: err} }
