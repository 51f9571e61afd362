package quorum

import (
	"context"
	"slices"

	"github.com/lockbeat/lockbeat/renewer"
)

// Release frees on all nodes at once what their owners have there: see
// [renewer.Store]. It answers when enough nodes have answered, and frees the rest in
// the background. A node that does not answer is asked once more after its Settle.
func (s *Store) Release(ctx context.Context, holds []renewer.Hold) []renewer.Answer {
	answers := make([]renewer.Answer, len(holds))
	if len(holds) == 0 || ended(ctx, answers) {
		return answers
	}
	holds = slices.Clone(holds)
	leases := s.releasing(holds)
	p := newBroadcast(ctx, s, func(_ *broadcast[renewer.Answer], r reply[renewer.Answer]) {
		s.released(r, leases, holds)
	})
	t := newAnswerSet(len(holds), len(s.nodes))
	for x := range s.nodes {
		p.ask(x, nil, len(holds), func(ctx context.Context, node renewer.Store) []renewer.Answer {
			return node.Release(ctx, holds)
		}, unanswered)
	}
	// the end of ctx is told with what was not answered by then
	_ = p.listen(ctx, func(r reply[renewer.Answer]) bool {
		s.released(r, leases, holds)
		return t.add(r, s.keep)
	})
	for i := range answers {
		if answers[i].Status = t.status(i, s.keep); answers[i].Status == renewer.StatusUnknown {
			answers[i].Err = s.unreachable(ctx, "release", s.keep, t.no[i], t.errors(i))
		}
	}
	return answers
}

// releasing ends the leases, so that nothing else is done for them.
func (s *Store) releasing(holds []renewer.Hold) []*lease {
	leases := make([]*lease, len(holds))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, h := range holds {
		l := s.open(key{h.Name, h.Owner}, h.TTL)
		l.granted, l.fence = false, 0
		l.used = max(l.used, h.Used)
		l.epoch++
		for x := range l.nodes {
			l.nodes[x].freeing++
		}
		leases[i] = l
	}
	return leases
}

// released books a node's answers. What is to be kept for a while ([renewer.Hold.Keep])
// must not be freed by a second try; it lapses on a node that did not hear of it.
func (s *Store) released(r reply[renewer.Answer], leases []*lease, holds []renewer.Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.each(func(i int, a *renewer.Answer) {
		if holds[i].Keep > 0 {
			leases[i].nodes[r.node].clear()
		}
		s.freed(r.node, leases[i], a.Status, holds[i].Keep > 0)
	})
}
