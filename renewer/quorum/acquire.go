package quorum

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// minUnit is the unit of the pauses, if a round took less.
const minUnit = time.Millisecond

// errLimit is the answer to a claim of a limit: of three nodes with two slots
// each, three owners could have two nodes each, and so each a majority.
var errLimit = fmt.Errorf("%w: %w: a quorum has no limits: each of three owners can have a "+
	"majority of three nodes that admit two; keep limits on one Redis deployment", store.ErrConfig,
	store.ErrRejected)

// Acquire tries each claim on all nodes at once, with one fencing token each:
// see [store.Store]. It returns as soon as each claim is decided, however many
// nodes have not answered by then. A claim that is not granted leaves nothing:
// what it took is freed in the background, even on nodes that answer late.
//
// When several callers have split the nodes among them, each frees its own and
// tries again, after pauses of random length. After five such rounds the answer
// is [store.StatusTaken] with a short TTL. [store.StatusUnknown] means that so
// many nodes could not be asked that no caller can get the lock; its error
// names each.
func (s *engine) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	grants := make([]store.Grant, len(claims))
	if len(claims) == 0 {
		return grants
	}
	if slices.ContainsFunc(claims, func(c store.Claim) bool { return c.Limit != 0 }) {
		for i := range grants {
			grants[i].Err = errLimit
		}
		return grants
	}
	if err := s.admit(ctx); err != nil {
		for i := range grants {
			grants[i].Err = fmt.Errorf("%w: %w", store.ErrNotSent, err)
		}
		return grants
	}
	defer func() { <-s.acquiring }()
	proposals, place := s.propose(claims)
	open := proposals
	for n := range maxRounds {
		took, err := s.round(ctx, open)
		unit := max(took, minUnit)
		open = s.conclude(ctx, open, unit)
		if err != nil || len(open) == 0 || n+1 == maxRounds {
			break
		}
		if !pause(ctx, s.concede(open), unit, n) {
			break
		}
	}
	s.recordGrants(proposals)
	for i := range grants {
		grants[i] = proposals[place[i]].grant
	}
	return grants
}

// admit waits until one more acquire may begin. The error is that of ctx, or
// ErrMixed.
func (s *engine) admit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.membership != nil {
		if err := s.membership.check(); err != nil {
			return err
		}
	}
	select {
	case s.acquiring <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("quorum: acquire: its time was over before its turn came, "+
			"behind others of this process: %w", ctx.Err())
	}
}

// propose makes proposals of the claims. Claims of the same owner for the same
// name share one; place has the index of each claim's.
func (s *engine) propose(claims []store.Claim) (proposals []*proposal, place []int) {
	proposals, place = make([]*proposal, 0, len(claims)), make([]int, len(claims))
	var first map[key]int
	if len(claims) > 1 {
		first = make(map[key]int, len(claims))
	}
	n := len(s.nodes.all)
	room, answers := make([]proposal, len(claims)), make([]*store.Grant, len(claims)*n)
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	for i := range claims {
		k := key{claims[i].Name, claims[i].Owner}
		if at, twice := first[k]; twice {
			place[i] = at
			continue
		}
		b := &room[i]
		b.claim.Claim, b.waits = claims[i], claims[i].Place != 0
		b.claim.Place = 0 // one node's line is not the quorum's
		b.answers, answers = answers[:n:n], answers[n:]
		b.begin(0) // time may be up before anything is asked
		b.lease = s.table.open(k, b.claim.TTL)
		b.lease.asking++
		if b.lease.granted {
			b.had = b.lease.fence
		}
		place[i] = len(proposals)
		if first != nil {
			first[k] = len(proposals)
		}
		proposals = append(proposals, b)
	}
	return proposals, place
}

// recordGrants records what came of the proposals.
func (s *engine) recordGrants(proposals []*proposal) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	for _, b := range proposals {
		l := b.lease
		l.asking--
		switch {
		case b.grant.Status == store.StatusHeld:
			l.granted, l.fence = true, b.grant.Fence
			l.good = max(l.good, b.sent)
		case !l.granted && l.asking == 0:
			s.cleaners.clean(l, b.grant.Status == store.StatusUnknown)
			s.table.forget(l)
		}
	}
}

// concede frees what proposals have got that others need. It reports whether
// there was none: each of these proposals leads.
func (s *engine) concede(proposals []*proposal) (leading bool) {
	leading = true
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	for _, b := range proposals {
		if s.leads(b) {
			continue
		}
		leading = false
		if !b.lease.granted && b.lease.asking == 1 {
			s.cleaners.clean(b.lease, true)
		}
	}
	return leading
}

// pause lets time pass between rounds. A caller that leads waits until the
// others have let go; the others wait for a random time after that, in which
// the leader is done. It reports whether ctx lives.
func pause(ctx context.Context, leading bool, unit time.Duration, n int) bool {
	d := unit + rand.N(unit/2)
	if !leading {
		d = 3*unit + rand.N(unit<<(n+2))
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

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
