package quorum

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// A holder that has had nodes for this long has the lock; one that
// has just collided with us, and will let go, has not. The longer
// time is for when the nodes that would make a majority don't answer.
const (
	standing     = 10 * time.Millisecond
	longStanding = 250 * time.Millisecond
)

// leastRetry is the shortest TTL told to a caller whose votes were split to the end.
const minRetry = 2 * time.Millisecond

// judge gives each bid its answer as things stand, and returns those worth another ballot: somebody
// else has nodes that we need, yet maybe not enough to hold the lock. unit is what a ballot takes.
func (s *Store) conclude(
	ctx context.Context, bids []*proposal, unit time.Duration,
) (split []*proposal) {
	spare := len(s.nodes) - s.write // so many nodes need not grant
	for _, b := range bids {
		unknown := b.failed + b.silent()
		switch {
		case b.mine >= s.write:
			b.grant = renewer.Grant{
				Status: renewer.StatusHeld, Fence: b.claim.Fence,
				Reserved: b.reserved(s.write),
			}
		case b.taken <= spare && unknown > spare:
			b.grant = renewer.Grant{
				Err: s.unreachable(ctx, "acquire", s.write, 0, grantErrors(b.votes)),
			}
		case b.taken <= spare && b.behind > 0 && b.fixed:
			b.grant = renewer.Grant{Status: renewer.StatusBehind, Fence: toExceed(b.votes, s.write)}
		case b.taken == 0 && ctx.Err() != nil:
			// time was up before the token could be raised: nobody has been seen to have it
			b.grant = renewer.Grant{
				Err: s.unreachable(ctx, "acquire", s.write, 0, grantErrors(b.votes)),
			}
		default:
			var votes int
			b.grant, votes = leader(b.votes)
			if s.stands(b, votes, unknown, unit) {
				b.grant.TTL = freeIn(b.votes, spare)
				continue
			}
			b.grant.TTL = minRetry + rand.N(unit<<maxRounds)
			split = append(split, b)
		}
	}
	return split
}

// stands tells whether the lock is held by whoever has so many nodes.
// Two holders may look alike, if they are of one process.
func (s *Store) stands(b *proposal, votes, unknown int, unit time.Duration) bool {
	switch {
	case b.grant.Holder == (renewer.Holder{}): // nobody can tell
		return votes >= s.keep
	case votes >= s.write && b.mine == 0 && b.grant.Holder != b.claim.Holder:
		return true
	case votes >= s.keep:
		return b.grant.HeldFor >= max(standing, 3*unit)
	default:
		return votes+unknown >= s.keep && b.grant.HeldFor >= longStanding
	}
}

// leads tells whether a bid whose votes were split keeps what it has, while all
// others let go: of those who see the same votes, the one who has the first node.
func (s *Store) leads(b *proposal) bool {
	for _, x := range s.order {
		if g := b.votes[x]; g != nil &&
			(g.Status == renewer.StatusHeld || g.Status == renewer.StatusTaken) {
			return g.Status == renewer.StatusHeld
		}
	}
	return false
}

// leader is who has most of the nodes that somebody else has.
func leader(votes []*renewer.Grant) (taken renewer.Grant, most int) {
	taken.Status = renewer.StatusTaken
	for i, g := range votes {
		if g == nil || g.Status != renewer.StatusTaken {
			continue
		}
		n, heldFor := 0, time.Duration(0)
		for _, other := range votes[i:] {
			if other != nil && other.Status == renewer.StatusTaken && other.Holder == g.Holder {
				n, heldFor = n+1, max(heldFor, other.HeldFor)
			}
		}
		if n > most {
			most, taken.Holder, taken.HeldFor = n, g.Holder, heldFor
		}
	}
	return taken, most
}

// toExceed is the counter above which so many nodes grant a token.
// Single nodes may be ahead, by tokens that were never granted.
func toExceed(votes []*renewer.Grant, nodes int) int64 {
	var counters []int64
	for _, g := range votes {
		switch {
		case g != nil && g.Status == renewer.StatusBehind:
			counters = append(counters, g.Fence)
		case g != nil && g.Status == renewer.StatusHeld:
			counters = append(counters, 0)
		}
	}
	slices.Sort(counters)
	return counters[min(nodes, len(counters))-1]
}

// freeIn is when no more than so many nodes will be somebody else's,
// unless their holders renew; 0 if nobody can tell.
func freeIn(votes []*renewer.Grant, spare int) time.Duration {
	var left []time.Duration
	for _, g := range votes {
		if g != nil && g.Status == renewer.StatusTaken {
			left = append(left, cmp.Or(g.TTL, math.MaxInt64))
		}
	}
	slices.Sort(left)
	if at := left[max(len(left)-spare, 1)-1]; at != math.MaxInt64 {
		return at
	}
	return 0
}
