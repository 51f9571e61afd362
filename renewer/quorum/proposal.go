package quorum

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// proposal is a claim that is put to the nodes, with one token at a time.
type proposal struct {
	claim contract.Proposal
	lease *lease
	waits bool        // others may wait for the name in this process: it wants tokens for them
	had   int64       // the token with which the owner is known to have the name already, or 0
	grant store.Grant // the answer

	counter int64 // the highest seen in any broadcast

	// What follows is of the last broadcast.
	sent    timing.Instant
	answers []*store.Grant // by node; nil: none yet
	ours    majority       // of nodes that grant it
	freeing int16          // nodes that were left out for a moment: a release is under way
}

// begin forgets the last broadcast.
func (b *proposal) begin(sent timing.Instant) {
	b.sent, b.ours, b.freeing = sent, newMajority(len(b.answers)), 0
	clear(b.answers)
}

// count adds a node's answer.
func (b *proposal) count(node int, g *store.Grant) {
	switch {
	case g.Status == store.StatusHeld && g.Fence != b.claim.Fence, g.Status == store.StatusGone:
		g = &store.Grant{Err: errStrange} // another token does not confirm ours
	case g.Status == store.StatusBehind && g.Fence == math.MaxInt64:
		g = &store.Grant{Err: errCounter}
	}
	b.answers[node] = g
	b.ours.count(g.Status)
	if g.Status == store.StatusBehind {
		b.counter = max(b.counter, g.Fence)
	}
}

// reserved is how many tokens above its own a granted proposal has: none,
// unless as many nodes as must grant the next token have passed over these.
func (b *proposal) reserved() int {
	m := newMajority(len(b.answers))
	for _, g := range b.answers {
		if g != nil && g.Status == store.StatusHeld && g.Reserved >= b.claim.Reserve {
			m.count(g.Status)
		}
	}
	if !m.reached() {
		return 0
	}
	return b.claim.Reserve
}

// tooLow reports whether a higher token could be granted where this one is not.
func (b *proposal) tooLow() bool {
	return b.ours.behind > 0 && !b.ours.reached() &&
		b.ours.taken+b.ours.failed <= b.ours.spare()
}

// decided reports whether no further answer changes what becomes of the
// proposal.
func (b *proposal) decided() bool {
	m := &b.ours
	return m.reached() || m.refused() || m.unavailable() || m.silent() == 0 ||
		b.tooLow() && !m.reachable()
}

// contended reports of a proposal that is not decided whether only silent nodes
// are missing, while another owner may wait for what this one has got. It has a
// node, or has had one since; or this one has just let go for it.
func (b *proposal) contended() bool {
	m := &b.ours
	return m.taken+m.behind+b.freeing > 0 && b.unheard() <= m.spare()
}

// unheard is how many nodes have said nothing, without those that can be asked
// in a moment.
func (b *proposal) unheard() int16 { return b.ours.unknown() - b.freeing }

// decided reports whether every proposal is decided; and if not, whether all
// others are contended.
func decided(proposals []*proposal) (enough, contended bool) {
	enough, contended = true, true
	for _, b := range proposals {
		if !b.decided() {
			enough = false
			contended = contended && b.contended()
		}
	}
	return enough, !enough && contended
}

// maxSkew is how far ahead of the local clock a node's counter may be and still
// be taken for another process's clock.
const maxSkew = time.Minute

// reserved is how many tokens a grant takes for hand-offs at most, so that none
// is further ahead of the clock than this. There are few, since a claim from
// another process that comes before its own clock has passed them must be put
// to the nodes twice.
const reserved = 100

// tokens picks the fencing tokens to propose: the wall clock in microseconds,
// strictly rising. They need not be unique among processes, since a node
// refuses the second of two equal ones.
type tokens struct {
	clock func() time.Time

	mu   sync.Mutex
	last int64
}

// next returns a token above every earlier one and above a counter seen at a
// node, 0 for none. lead is by how much it is ahead of the clock.
//
// A counter that is a little ahead comes from another process whose clock is.
// All later tokens are above it too, which spares the next name a broadcast. A
// counter that is far ahead concerns its name alone: it must not spread to
// every name.
func (t *tokens) next(above int64) (token, lead int64) {
	now := t.clock().UnixMicro()
	t.mu.Lock()
	defer t.mu.Unlock()
	token = max(t.last+1, now)
	if above >= token {
		token = above + 1
		if above-now > maxSkew.Microseconds() {
			return token, token - now
		}
	}
	t.last = token
	return token, token - now
}

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
