package quorum

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

const (
	// mostBallots is how often a call tries when votes are split. Pauses
	// double, so that of several callers who collide one is soon alone.
	maxRounds = 5
	// mostRounds bounds how often a token is raised in one ballot. Each is above all counters
	// seen in the one before, so that a second round fails only if another grant came in between.
	maxBroadcasts = 8
	// leastUnit is the unit of the pauses, if a ballot took less.
	minUnit = time.Millisecond
	// mostAcquires is how many acquires there are at once. Each costs a goroutine for each node,
	// and several turns at the store's mutex: heartbeats take turns at that too, and a crowd of
	// thousands would keep them waiting for longer than the nodes do.
	maxAcquires = 256
	// leastGrace is how long at least a node is waited for when the others have answered
	// and somebody else contends: whoever waits for it keeps what the other needs.
	minGrace = 5 * time.Millisecond
)

// Acquire tries each claim on all nodes at once, with one fencing token each:
// see [renewer.Store]. It returns as soon as each claim is decided, however many
// nodes have not answered by then. A claim that is not granted leaves nothing:
// what it took is freed in the background, on nodes that answer late too.
//
// When several callers have split the nodes among them, each frees its own and
// tries again, after pauses of random length. After five such ballots the answer
// is [renewer.StatusTaken] with a short TTL. [renewer.StatusUnknown] means that so many
// nodes could not be asked that nobody can get the lock; its error names each.
func (s *Store) Acquire(ctx context.Context, claims []renewer.Claim) []renewer.Grant {
	grants := make([]renewer.Grant, len(claims))
	if len(claims) == 0 {
		return grants
	}
	err := ctx.Err()
	if err == nil {
		err = s.mixed()
	}
	if err == nil {
		err = s.turn(ctx)
	}
	if err != nil {
		for i := range grants {
			grants[i].Err, grants[i].Unsent = err, true
		}
		return grants
	}
	defer func() { <-s.acquiring }()
	bids, place := s.enter(claims)
	open := bids
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
	s.leave(bids)
	for i := range grants {
		grants[i] = bids[place[i]].grant
	}
	return grants
}

// turn waits until one more acquire may begin. The error is that of ctx.
func (s *Store) turn(ctx context.Context) error {
	select {
	case s.acquiring <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("quorum: acquire: not sent: its time was over before its turn came, "+
			"behind others of this process: %w", ctx.Err())
	}
}

// enter makes a bid of each claim, and tells which bid is whose:
// claims of the same owner for the same name share one.
func (s *Store) enter(claims []renewer.Claim) (bids []*proposal, place []int) {
	bids, place = make([]*proposal, 0, len(claims)), make([]int, len(claims))
	var first map[key]int
	if len(claims) > 1 {
		first = make(map[key]int, len(claims))
	}
	room, votes := make([]proposal, len(claims)), make([]*renewer.Grant, len(claims)*len(s.nodes))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range claims {
		k := key{claims[i].Name, claims[i].Owner}
		if at, twice := first[k]; twice {
			place[i] = at
			continue
		}
		b := &room[i]
		b.claim, b.fixed, b.wants = claims[i], claims[i].Fence != 0, claims[i].Reserve
		b.claim.Queue = false // one node's line is not the quorum's
		b.votes, votes = votes[:len(s.nodes):len(s.nodes)], votes[len(s.nodes):]
		b.lease = s.open(k, b.claim.TTL)
		b.lease.asking++
		if b.lease.granted {
			b.had = b.lease.fence
		}
		place[i] = len(bids)
		if first != nil {
			first[k] = len(bids)
		}
		bids = append(bids, b)
	}
	return bids, place
}

// leave books what came of the bids.
func (s *Store) leave(bids []*proposal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range bids {
		l := b.lease
		l.asking--
		switch {
		case b.grant.Status == renewer.StatusHeld:
			l.granted, l.fence = true, b.grant.Fence
			l.good = max(l.good, b.sent)
		case !l.granted && l.asking == 0:
			s.clean(l, b.grant.Status == renewer.StatusUnknown)
			s.forget(l)
		}
	}
}

// concede frees what bids have got that others need. It tells whether
// there was none: each bid goes before the others.
func (s *Store) concede(bids []*proposal) (leading bool) {
	leading = true
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range bids {
		if s.leads(b) {
			continue
		}
		leading = false
		if !b.lease.granted && b.lease.asking == 1 {
			s.clean(b.lease, true)
		}
	}
	return leading
}

// pause lets time pass between ballots: for whoever leads, as long as others need to let go;
// for these, a random time after that, in which the leader is done. It tells whether ctx lives.
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
