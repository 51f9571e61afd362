package quorum

import (
	"context"
	"slices"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Release frees on all nodes at once what their owners have there: see
// [store.Store]. It answers when enough nodes have answered, and frees the rest
// in the background. A node that does not answer is asked once more after its
// Settle.
func (s *engine) Release(ctx context.Context, holds []store.Hold) []store.Answer {
	answers := make([]store.Answer, len(holds))
	if len(holds) == 0 || ended(ctx, answers) {
		return answers
	}
	holds = slices.Clone(holds) // slow nodes look at them when the caller has gone on
	leases := s.releasing(holds)
	_, t := askAll(ctx, s.nodes, holds, contract.Proposer.Release,
		func(_ *broadcast[store.Answer], r reply[store.Answer]) { s.released(r, leases, holds) })
	for i := range answers {
		switch answers[i].Status = t.status(i); answers[i].Status {
		case store.StatusUnknown:
			answers[i].Err = t.unreachable(ctx, "release", s.nodes, i)
		case store.StatusTaken:
			answers[i] = t.taken(i)
		}
	}
	return answers
}

// releasing ends the leases, so that nothing else is done for them.
func (s *engine) releasing(holds []store.Hold) []*lease {
	leases := make([]*lease, len(holds))
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	for i, h := range holds {
		l := s.table.open(key{h.Name, h.Owner}, h.TTL)
		l.granted, l.fence = false, 0
		l.epoch++
		for x := range l.nodes {
			l.nodes[x].freeing++
		}
		leases[i] = l
	}
	return leases
}

// released records a node's answers. A second try must not free what is to be
// kept for a while ([store.Hold.Keep]); it lapses on a node that did not hear
// of it.
func (s *engine) released(r reply[store.Answer], leases []*lease, holds []store.Hold) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	r.each(func(i int, a *store.Answer) {
		kept := holds[i].Keep > 0
		if kept {
			leases[i].nodes[r.node].clear()
		}
		s.cleaners[r.node].freed(leases[i], a.Status, kept)
	})
}
