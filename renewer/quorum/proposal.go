package quorum

import (
	"math"

	"github.com/lockbeat/lockbeat/renewer"
)

// bid is a claim that is put to the nodes.
type proposal struct {
	claim renewer.Claim
	lease *lease
	fixed bool          // the token is the caller's
	wants int           // tokens to reserve
	had   int64         // the token that the owner has the name with already, as far as we know
	grant renewer.Grant // the answer

	counter int64            // the highest seen in any round
	sent    instant          // the last round; what follows is of it
	votes   []*renewer.Grant // by node; nil: none yet
	mine    int
	taken   int
	behind  int
	failed  int
}

// begin forgets the round before.
func (b *proposal) begin(sent instant) {
	b.sent, b.mine, b.taken, b.behind, b.failed = sent, 0, 0, 0, 0
	clear(b.votes)
}

// count adds a node's answer.
func (b *proposal) count(node int, g *renewer.Grant) {
	switch {
	case g.Status == renewer.StatusHeld && g.Fence != b.claim.Fence, g.Status == renewer.StatusGone:
		g = &renewer.Grant{Err: errStrange} // another token is no vote for ours
	case g.Status == renewer.StatusBehind && g.Fence == math.MaxInt64:
		g = &renewer.Grant{Err: errCounter}
	}
	b.votes[node] = g
	switch g.Status {
	case renewer.StatusHeld:
		b.mine++
	case renewer.StatusTaken:
		b.taken++
	case renewer.StatusBehind:
		b.behind++
		b.counter = max(b.counter, g.Fence)
	default:
		b.failed++
	}
}

// reserved is how many tokens above its own a bid has that was granted:
// those that as many nodes have passed over as must grant the next one.
func (b *proposal) reserved(write int) int {
	nodes := 0
	for _, g := range b.votes {
		if g != nil && g.Status == renewer.StatusHeld && g.Reserved >= b.claim.Reserve {
			nodes++
		}
	}
	if nodes < write {
		return 0
	}
	return b.claim.Reserve
}

// silent counts the nodes that have not answered.
func (b *proposal) silent() int { return len(b.votes) - b.mine - b.taken - b.behind - b.failed }

// passed tells that the token was too low for a grant that a higher one could get.
func (b *proposal) tokenPassed(write int) bool {
	return !b.fixed && b.behind > 0 && b.mine < write && b.taken+b.failed <= len(b.votes)-write
}

// decided tells whether each bid has heard enough: it is granted, or needs a higher token, or so
// many nodes are another's, or don't answer, that it can't be. If not, contended tells that all
// that is missing are a few silent nodes, while somebody else may wait for what the bid has got.
func decided(bids []*proposal, write, keep int) (enough, contended bool) {
	enough, contended = true, true
	for _, b := range bids {
		spare := len(b.votes) - write
		switch {
		case b.mine >= write, b.failed > spare, b.silent() == 0:
		case b.taken > spare && (b.taken >= keep || b.taken+b.silent() < keep):
		case b.tokenPassed(write) && b.mine+b.silent() < write:
		default:
			enough = false
			contended = contended &&
				(b.taken > spare || b.taken > 0 && b.failed+b.silent() <= spare)
		}
	}
	return enough, !enough && contended
}
