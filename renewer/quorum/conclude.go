package quorum

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// A holder that has had nodes for this long has the lock. One that has just
// collided with us has not, and will let go. The longer time is for when the
// nodes that would make a majority don't answer.
const (
	standing     = 10 * time.Millisecond
	longStanding = 250 * time.Millisecond
)

// maxRounds is how often a call tries when the nodes are split among several
// owners. Pauses double, so that of several callers who collide one is soon
// alone.
const maxRounds = 5

// minRetry is the shortest TTL given to a caller whose proposal was split to
// the end.
const minRetry = 2 * time.Millisecond

// conclude gives each proposal its answer as things stand. It returns those
// worth another round: another owner has nodes that we need, yet maybe not
// enough to hold the lock. unit is what a round takes.
func (s *engine) conclude(
	ctx context.Context, proposals []*proposal, unit time.Duration,
) (split []*proposal) {
	for _, b := range proposals {
		m := &b.ours
		switch {
		case m.reached():
			b.grant = store.Grant{
				Status: store.StatusHeld, Fence: b.claim.Fence, Reserved: b.reserved(),
			}
		case !m.refused() && m.unknown() > m.spare():
			b.grant = b.unreachable(ctx, s.nodes)
			if b.unheard() <= m.spare() {
				split = append(split, b) // its own release is nearly over
			}
		case m.taken == 0 && ctx.Err() != nil:
			// time was up before the token could be raised, and no other owner
			// was seen
			b.grant = b.unreachable(ctx, s.nodes)
		default:
			var held majority
			b.grant, held = b.leader()
			if b.stands(held, unit) {
				b.grant.TTL = freeIn(b.answers, int(m.spare()))
				continue
			}
			b.grant.TTL = minRetry + rand.N(unit<<maxRounds)
			split = append(split, b)
		}
	}
	return split
}

// unreachable answers that too few nodes did.
func (b *proposal) unreachable(ctx context.Context, nodes *nodeSet) store.Grant {
	errs := make([]error, len(b.answers))
	for x, g := range b.answers {
		switch {
		case g == nil:
			errs[x] = errSilent
		case g.Status == store.StatusUnknown:
			errs[x] = orStrange(g.Err)
		}
	}
	return ungranted(newUnreachable(ctx, "acquire", nodes, newMajority(len(errs)), errs))
}

// stands reports whether the owner in b.grant, who has the nodes that held
// confirms, has the lock. Two owners may look alike, if they are of one
// process.
func (b *proposal) stands(held majority, unit time.Duration) bool {
	switch {
	case b.grant.Holder == (store.Holder{}): // the nodes can't tell
		return held.reached()
	case held.reached() && b.ours.confirmed == 0 && b.grant.Holder != b.claim.Holder:
		return true
	case held.reached():
		return b.grant.HeldFor >= max(standing, 3*unit)
	default:
		return held.reachable() && b.grant.HeldFor >= longStanding
	}
}

// leads reports whether a split proposal keeps what it has, while all others
// let go. Of the owners who see the same answers, the one with the first node
// leads.
func (s *engine) leads(b *proposal) bool {
	for _, x := range s.order {
		if g := b.answers[x]; g != nil &&
			(g.Status == store.StatusHeld || g.Status == store.StatusTaken) {
			return g.Status == store.StatusHeld
		}
	}
	return false
}

// leader is the other owner who has most nodes, and the count of nodes that
// confirm it. Nodes that gave no answer stay silent in that count, since they
// may confirm it too.
func (b *proposal) leader() (taken store.Grant, most majority) {
	taken.Status, most = store.StatusTaken, newMajority(len(b.answers))
	for _, g := range b.answers {
		if g == nil || g.Status != store.StatusTaken {
			continue
		}
		held, heldFor := newMajority(len(b.answers)), time.Duration(0)
		for _, other := range b.answers {
			switch {
			case other == nil || other.Status == store.StatusUnknown:
			case other.Status == store.StatusTaken && other.Holder == g.Holder &&
				other.Foreign == g.Foreign:
				held.count(store.StatusHeld)
				heldFor = max(heldFor, other.HeldFor)
			default:
				held.count(store.StatusGone)
			}
		}
		if held.confirmed > most.confirmed {
			most, taken.Holder, taken.HeldFor = held, g.Holder, heldFor
			taken.Foreign = g.Foreign
		}
	}
	return taken, most
}

// freeIn is when no more than spare nodes are another owner's, unless these
// owners renew; 0 if the nodes can't tell.
func freeIn(answers []*store.Grant, spare int) time.Duration {
	var left []time.Duration
	for _, g := range answers {
		if g != nil && g.Status == store.StatusTaken {
			left = append(left, cmp.Or(g.TTL, math.MaxInt64))
		}
	}
	slices.Sort(left)
	if at := left[max(len(left)-spare, 1)-1]; at != math.MaxInt64 {
		return at
	}
	return 0
}
