package quorum

import (
	"context"
	"slices"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// needed is how many of n nodes must grant a token, and must hold a lease for
// it to be valid. Invariant: any two such sets have a node in common.
func needed(n int) int { return n/2 + 1 }

// majority counts the nodes' answers to one question. Invariant: each node is
// counted at most once, so that the five counts and silent add up to all nodes;
// what reached, refused and unavailable report stays true whatever the silent
// nodes answer, and reached excludes the other two.
//
// Its numbers are small since a batch has a count for each lease.
type majority struct {
	nodes int16

	confirmed int16 // the owner has it there
	taken     int16 // another owner has it there
	gone      int16 // no owner has it there
	behind    int16 // the token is too low there
	failed    int16 // the node gave no answer that says anything
}

func newMajority(nodes int) majority {
	return majority{nodes: int16(nodes)} //nolint:gosec // a few nodes
}

// needed is how many nodes must confirm.
func (m *majority) needed() int16 { return int16(needed(int(m.nodes))) } //nolint:gosec // a few

// count adds one node's answer.
func (m *majority) count(status store.Status) {
	switch status {
	case store.StatusHeld:
		m.confirmed++
	case store.StatusTaken, store.StatusBroken:
		m.taken++
	case store.StatusGone:
		m.gone++
	case store.StatusBehind:
		m.behind++
	case store.StatusUnknown:
		m.failed++
	default:
		m.failed++
	}
}

// silent is how many nodes have not answered.
func (m *majority) silent() int16 {
	return m.nodes - m.confirmed - m.taken - m.gone - m.behind - m.failed
}

// unknown is how many nodes have not said anything, yet or at all.
func (m *majority) unknown() int16 { return m.failed + m.silent() }

// spare is how many nodes need not confirm.
func (m *majority) spare() int16 { return m.nodes - m.needed() }

// reached reports whether enough nodes confirm.
func (m *majority) reached() bool { return m.confirmed >= m.needed() }

// reachable reports whether enough nodes confirm if all silent ones do.
func (m *majority) reachable() bool { return m.confirmed+m.silent() >= m.needed() }

// refused reports whether so many nodes say no that the others are too few.
func (m *majority) refused() bool { return m.taken+m.gone > m.spare() }

// unavailable reports whether so many nodes failed that the others are too few.
func (m *majority) unavailable() bool { return m.failed > m.spare() }

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
