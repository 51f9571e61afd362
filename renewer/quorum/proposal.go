package quorum

import (
	"math"
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
