package quorum

import (
	"context"
	"slices"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Renew renews every lease on all nodes at once, and answers when each is
// decided.
//
// Let K be how many nodes must hold a lease. It is [store.StatusHeld] for a TTL
// from the K-th latest confirmation by its nodes on. The answer's Age says how
// long before the request that was, if some of the nodes have confirmed only an
// earlier heartbeat. A node that answers that the lease is not the owner's is
// left out of that lease; when fewer than K are left, the answer is theirs. A
// lease that another Store has acquired is known by what the nodes answer now.
func (s *engine) Renew(ctx context.Context, holds []store.Hold) []store.Answer {
	answers := make([]store.Answer, len(holds))
	if len(holds) == 0 || ended(ctx, answers) {
		return answers
	}
	if s.membership != nil {
		s.membership.recheckSoon()
	}
	holds = slices.Clone(holds) // slow nodes look at them when the caller has gone on
	p, t := askAll(ctx, s.nodes, holds, contract.Proposer.Renew,
		func(p *broadcast[store.Answer], r reply[store.Answer]) { s.recordHeartbeats(p, r, holds) })
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	for i := range holds {
		answers[i] = s.renewAnswer(ctx, p, t, i, holds[i])
	}
	return answers
}

// recordHeartbeats records a node's answers.
func (s *engine) recordHeartbeats(
	p *broadcast[store.Answer], r reply[store.Answer], holds []store.Hold,
) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	now := s.nodes.clock.Now()
	r.each(func(i int, a *store.Answer) {
		h := &holds[i]
		l := s.table.leases[key{h.Name, h.Owner}]
		if l == nil || !l.granted {
			return
		}
		switch a.Status {
		case store.StatusHeld:
			l.ttl = h.TTL
			l.nodes[r.node].confirm(p.sent)
		case store.StatusTaken, store.StatusGone, store.StatusBroken:
			l.nodes[r.node].refuse(now)
		case store.StatusUnknown, store.StatusBehind:
		}
	})
}

// renewAnswer answers one item. Under leaseTable.mu.
func (s *engine) renewAnswer(
	ctx context.Context, p *broadcast[store.Answer], t *answerSet, i int, h store.Hold,
) store.Answer {
	l := s.table.leases[key{h.Name, h.Owner}]
	status := t.status(i)
	if l == nil && status == store.StatusHeld {
		l = s.adopt(p, t, i, h)
	}
	ours := l != nil && l.granted
	switch {
	case status == store.StatusTaken || status == store.StatusGone:
		if ours {
			s.lose(l)
		}
		return t.taken(i)
	case ours:
		// What counts is not what was answered, but what still stands: a later
		// no may have overtaken an earlier yes. If this heartbeat did not reach
		// enough nodes by itself, it may have together with those that earlier
		// ones reached.
		since := min(l.since(), p.sent)
		if age := p.sent.Sub(since); age == 0 || since > l.good && age < h.TTL {
			l.good = max(l.good, since)
			return store.Answer{Status: store.StatusHeld, Age: age}
		}
	case status == store.StatusHeld:
		// a lease that is being released: true, though no caller can use it any
		// more
		return store.Answer{Status: store.StatusHeld}
	}
	return store.Answer{Err: t.unreachable(ctx, "renew", s.nodes, i)}
}

// adopt adds a lease that another Store has acquired to the table. Under
// leaseTable.mu.
func (s *engine) adopt(
	p *broadcast[store.Answer], t *answerSet, i int, h store.Hold,
) *lease {
	l := s.table.open(key{h.Name, h.Owner}, h.TTL)
	l.granted = true
	for x := range l.nodes {
		if a, _ := t.answer(x, i); a.Status == store.StatusHeld {
			l.nodes[x].confirm(p.sent)
		}
	}
	return l
}

// lose records that a lease is over, and frees it on the nodes that still have
// it, for the next owner. Under leaseTable.mu.
func (s *engine) lose(l *lease) {
	l.granted = false
	if l.asking == 0 {
		s.cleaners.clean(l, false)
		s.table.forget(l)
	}
}

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
