package quorum

import (
	"context"
	"slices"

	"github.com/lockbeat/lockbeat/renewer"
)

// Renew renews every lease on all nodes at once, and answers when each is decided. A
// lease is [renewer.StatusHeld] for a TTL from the q-th latest confirmation by its nodes
// on, q being how many must hold it; the answer's Age tells when that was, if some
// of them have confirmed an earlier heartbeat only. A node that says that the lease
// is not ours is left out of that lease; when too few are left, the answer is
// theirs. It knows leases that another Store has acquired by what the nodes say now.
func (s *Store) Renew(ctx context.Context, holds []renewer.Hold) []renewer.Answer {
	answers := make([]renewer.Answer, len(holds))
	if len(holds) == 0 || ended(ctx, answers) {
		return answers
	}
	s.recheckSoon()
	holds = slices.Clone(holds) // slow nodes look at them when the caller has gone on
	p := newBroadcast(ctx, s, func(p *broadcast[renewer.Answer], r reply[renewer.Answer]) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.heartbeats(p, r, holds)
	})
	t := newAnswerSet(len(holds), len(s.nodes))
	for x := range s.nodes {
		p.ask(x, nil, len(holds), func(ctx context.Context, node renewer.Store) []renewer.Answer {
			return node.Renew(ctx, holds)
		}, unanswered)
	}
	// the end of ctx is told with what was not answered by then
	_ = p.listen(ctx, func(r reply[renewer.Answer]) bool {
		s.mu.Lock()
		s.heartbeats(p, r, holds)
		s.mu.Unlock()
		return t.add(r, s.keep)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range holds {
		answers[i] = s.renewAnswer(ctx, p, t, i, holds[i])
	}
	return answers
}

// heartbeats books a node's answers. Under s.mu.
func (s *Store) heartbeats(
	p *broadcast[renewer.Answer], r reply[renewer.Answer], holds []renewer.Hold,
) {
	now := s.clock.now()
	r.each(func(i int, a *renewer.Answer) {
		h := &holds[i]
		l := s.table.leases[key{h.Name, h.Owner}]
		if l == nil || !l.granted {
			return
		}
		switch a.Status {
		case renewer.StatusHeld:
			l.ttl = h.TTL
			l.nodes[r.node].confirm(p.sent)
		case renewer.StatusTaken, renewer.StatusGone:
			l.nodes[r.node].refuse(now)
		case renewer.StatusUnknown, renewer.StatusBehind:
		}
	})
}

// renewed answers one item. Under s.mu.
func (s *Store) renewAnswer(
	ctx context.Context, p *broadcast[renewer.Answer], t *answerSet, i int, h renewer.Hold,
) renewer.Answer {
	l := s.table.leases[key{h.Name, h.Owner}]
	status := t.status(i, s.keep)
	if l == nil && status == renewer.StatusHeld {
		l = s.adopt(p, t, i, h)
	}
	ours := l != nil && l.granted
	switch {
	case status == renewer.StatusTaken || status == renewer.StatusGone:
		if ours {
			s.lose(l)
		}
		return renewer.Answer{Status: status}
	case ours:
		// Not what was answered, but what still stands: a later no may have
		// overtaken an earlier yes. And if this heartbeat did not get so far
		// by itself, it may have together with what others came to before.
		since := min(l.since(s.keep), p.sent)
		if age := p.sent.sub(since); age == 0 || since > l.good && age < h.TTL {
			l.good = max(l.good, since)
			return renewer.Answer{Status: renewer.StatusHeld, Age: age}
		}
	case status == renewer.StatusHeld:
		// a lease that is being released: true, and of no use to anybody
		return renewer.Answer{Status: renewer.StatusHeld}
	}
	return renewer.Answer{Err: s.unreachable(ctx, "renew", s.keep, t.no[i], t.errors(i))}
}

// adopt makes a lease known that another Store has acquired. Under s.mu.
func (s *Store) adopt(p *broadcast[renewer.Answer], t *answerSet, i int, h renewer.Hold) *lease {
	l := s.open(key{h.Name, h.Owner}, h.TTL)
	l.granted = true
	for x := range s.nodes {
		if a, _ := t.answer(x, i); a.Status == renewer.StatusHeld {
			l.nodes[x].confirm(p.sent)
		}
	}
	return l
}

// lose books that a lease is over, and frees it on nodes that still
// have it, for whoever comes next. Under s.mu.
func (s *Store) lose(l *lease) {
	l.granted = false
	if l.asking == 0 {
		s.clean(l, false)
		s.forget(l)
	}
}
