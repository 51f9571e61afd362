package quorum

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// ballot puts the bids to the nodes, in rounds: a token that a node's counter has passed is raised.
// It returns how long those took that answered, and the error of ctx, if that has ended it.
func (s *Store) round(ctx context.Context, bids []*proposal) (took time.Duration, err error) {
	if err := s.quiet(ctx, bids); err != nil {
		return 0, err
	}
	for n := 0; n < maxBroadcasts && len(bids) > 0; n++ {
		for _, b := range bids {
			s.chooseToken(b)
		}
		d, err := s.broadcastClaims(ctx, bids)
		took += d
		var passed []*proposal
		for _, b := range bids {
			if b.tokenPassed(s.write) {
				passed = append(passed, b)
			}
		}
		if bids = passed; err != nil {
			return took, err
		}
	}
	return took, nil
}

// quiet waits for releases under way that an earlier attempt of the same owner has left,
// as they could free what is granted now. Nodes where there is one are left out; so
// there is nothing to wait for if the others suffice, and a node that does not answer
// soon is not waited for. What is only planned is this ballot's affair from now on.
func (s *Store) quiet(ctx context.Context, bids []*proposal) error {
	var timeout <-chan time.Time
	for {
		var over chan struct{}
		s.mu.Lock()
		for _, b := range bids {
			b.lease.epoch++
			if over == nil && b.lease.freeing() > len(s.nodes)-s.write {
				if b.lease.freed == nil {
					b.lease.freed = make(chan struct{})
				}
				over = b.lease.freed
			}
		}
		s.mu.Unlock()
		if over == nil {
			return nil
		}
		if timeout == nil {
			timer := time.NewTimer(minGrace)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-over:
		case <-timeout:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// propose gives a bid its token.
func (s *Store) chooseToken(b *proposal) {
	switch {
	case b.fixed:
	case b.had > b.counter:
		b.claim.Fence = b.had // the same grant again, if it still stands
	default:
		token, lead := s.tokens.next(b.counter)
		b.claim.Fence = token
		// no further ahead of the clock than one claim wants
		b.claim.Reserve = int(max(0, int64(b.wants)-max(0, lead)))
	}
}

// round asks every node once, until each bid is decided. It returns when
// the last answer came, and the error of ctx, if that has ended it.
func (s *Store) broadcastClaims(
	ctx context.Context, bids []*proposal,
) (took time.Duration, err error) {
	claims := make([]renewer.Claim, len(bids))
	p := newBroadcast(ctx, s, func(p *broadcast[renewer.Grant], r reply[renewer.Grant]) {
		s.lateGrants(p, r, claims)
	})
	p.kind = acquires
	for i, b := range bids {
		claims[i] = b.claim
		b.begin(p.sent)
	}
	for x := range s.nodes {
		items := s.admitted(x, bids, p)
		part := claims
		if items != nil {
			part = make([]renewer.Claim, len(items))
			for j, i := range items {
				part[j] = claims[i]
			}
		}
		p.ask(x, items, len(part), func(ctx context.Context, node renewer.Store) []renewer.Grant {
			return node.Acquire(ctx, part)
		}, func(err error) renewer.Grant { return renewer.Grant{Err: err} })
	}
	err = p.listen(ctx, func(r reply[renewer.Grant]) bool {
		took = s.age() - p.age
		s.mu.Lock()
		now := s.clock.now()
		r.each(func(i int, g *renewer.Grant) {
			bids[i].count(r.node, g)
			bids[i].lease.nodes[r.node].record(g.Status, p.sent, p.age, now)
		})
		s.mu.Unlock()
		enough, contended := decided(bids, s.write, s.keep)
		if contended {
			p.within(max(3*took, minGrace))
		}
		return enough
	})
	return took, err
}

var barred = &renewer.Grant{Err: errBarred}

// admitted are the bids that may be put to a node: all of them, which
// is nil, unless a release for one is under way there.
func (s *Store) admitted(node int, bids []*proposal, p *broadcast[renewer.Grant]) (items []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, b := range bids {
		if !b.lease.nodes[node].busy(p.age) {
			if items != nil {
				items = append(items, i)
			}
			continue
		}
		if items == nil {
			items = make([]int, i, len(bids))
			for j := range items {
				items[j] = j
			}
		}
		b.count(node, barred)
	}
	return items
}

// lateGrants books answers that came when nobody waited for them any more.
func (s *Store) lateGrants(
	p *broadcast[renewer.Grant], r reply[renewer.Grant], claims []renewer.Claim,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.now()
	r.each(func(i int, g *renewer.Grant) {
		l := s.open(key{claims[i].Name, claims[i].Owner}, claims[i].TTL)
		l.nodes[r.node].record(g.Status, p.sent, p.age, now)
		seat := &l.nodes[r.node]
		switch {
		case l.granted, l.asking > 0:
		case seat.freeing > 0:
			// to free it at the same time could make that release
			// hear that it was not ours any more
			seat.late = seat.late || g.Status == renewer.StatusHeld
		default:
			s.cleanNode(l, r.node, true)
			s.forget(l)
		}
	})
}
