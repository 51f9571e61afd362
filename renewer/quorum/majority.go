package quorum

import "github.com/lockbeat/lockbeat/renewer/store"

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
