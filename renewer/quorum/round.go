package quorum

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// maxBroadcasts bounds how often a token is raised in one round. Each is above
// all counters seen before it, so that a second broadcast fails only if another
// grant came in between.
const maxBroadcasts = 8

// round puts the proposals to the nodes. A proposal whose token is too low for
// a node is put to them again, with a higher one. It returns how long the nodes
// took that answered, and the error of ctx, if that has ended it.
func (s *engine) round(
	ctx context.Context, proposals []*proposal,
) (took time.Duration, err error) {
	if err := s.awaitReleases(ctx, proposals); err != nil {
		return 0, err
	}
	for n := 0; n < maxBroadcasts && len(proposals) > 0; n++ {
		for _, b := range proposals {
			s.chooseToken(b)
		}
		d, err := s.broadcastClaims(ctx, proposals)
		took += d
		var again []*proposal
		for _, b := range proposals {
			if b.tooLow() {
				again = append(again, b)
			}
		}
		if proposals = again; err != nil {
			return took, err
		}
	}
	return took, nil
}

// awaitReleases waits for the releases under way that an earlier attempt of the
// same owner has left, since they could free what is granted now.
//
// It does not wait if the nodes without one suffice, as the others are left
// out; nor for a node that does not answer soon. Cleanups that are only planned
// become obsolete: what they would free is up to this round now.
func (s *engine) awaitReleases(ctx context.Context, proposals []*proposal) error {
	var timeout <-chan time.Time
	for {
		var over chan struct{}
		s.table.mu.Lock()
		for _, b := range proposals {
			b.lease.epoch++
			if over == nil && b.lease.blocked(s.nodes) {
				if b.lease.freed == nil {
					b.lease.freed = make(chan struct{})
				}
				over = b.lease.freed
			}
		}
		s.table.mu.Unlock()
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

// chooseToken gives a proposal its token.
func (s *engine) chooseToken(b *proposal) {
	if b.had > b.counter {
		b.claim.Fence = b.had // the same grant again, if it still stands
		return
	}
	token, lead := s.tokens.next(b.counter)
	b.claim.Fence = token
	if b.waits {
		b.claim.Reserve = int(max(0, reserved-max(0, lead)))
	}
}

// broadcastClaims asks every node once, until each proposal is decided. It
// returns when the last answer came, and the error of ctx, if that has ended
// it.
func (s *engine) broadcastClaims(
	ctx context.Context, proposals []*proposal,
) (took time.Duration, err error) {
	claims := make([]contract.Proposal, len(proposals))
	p := newBroadcast(ctx, s.nodes,
		func(p *broadcast[store.Grant], r reply[store.Grant]) { s.lateGrants(p, r, claims) })
	p.kind = acquires
	for i, b := range proposals {
		claims[i] = b.claim
		b.begin(p.sent)
	}
	for x := range s.nodes.all {
		items := s.admitted(x, proposals, p)
		part := claims
		if items != nil {
			part = make([]contract.Proposal, len(items))
			for j, i := range items {
				part[j] = claims[i]
			}
		}
		p.ask(x, items, len(part), func(ctx context.Context, node contract.Proposer) []store.Grant {
			return node.Propose(ctx, part)
		}, ungranted)
	}
	err = p.listen(ctx, func(r reply[store.Grant]) bool {
		took = s.nodes.age() - p.age
		s.table.mu.Lock()
		now := s.nodes.clock.Now()
		r.each(func(i int, g *store.Grant) {
			s.nodes.all[r.node].answered(g.Status)
			proposals[i].count(r.node, g)
			proposals[i].lease.nodes[r.node].record(g.Status, p.sent, p.age, now)
		})
		s.table.mu.Unlock()
		enough, contended := decided(proposals)
		return enough || contended && p.within(max(3*took, minGrace))
	})
	return took, err
}

var barred = &store.Grant{Err: errBarred}

// admitted are the proposals that may be put to a node: all of them, which is
// nil, unless a release for one is under way there.
func (s *engine) admitted(
	node int, proposals []*proposal, p *broadcast[store.Grant],
) (items []int) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	for i, b := range proposals {
		if !b.lease.nodes[node].busy(p.age) {
			if items != nil {
				items = append(items, i)
			}
			continue
		}
		if items == nil {
			items = make([]int, i, len(proposals))
			for j := range items {
				items[j] = j
			}
		}
		b.count(node, barred)
		if b.lease.freesSoon(s.nodes, node) {
			b.freeing++
		}
	}
	return items
}

// lateGrants records answers that came after the call had returned.
func (s *engine) lateGrants(
	p *broadcast[store.Grant], r reply[store.Grant], claims []contract.Proposal,
) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	now := s.nodes.clock.Now()
	r.each(func(i int, g *store.Grant) {
		l := s.table.open(key{claims[i].Name, claims[i].Owner}, claims[i].TTL)
		n := &l.nodes[r.node]
		s.nodes.all[r.node].answered(g.Status)
		n.record(g.Status, p.sent, p.age, now)
		switch {
		case l.granted, l.asking > 0:
		case n.freeing > 0:
			// A second release at the same time could make the first one hear
			// that the key is not the owner's any more.
			n.late = n.late || g.Status == store.StatusHeld
		default:
			s.cleaners[r.node].clean(l, true)
			s.table.forget(l)
		}
	})
}
