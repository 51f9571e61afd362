package contract

import (
	"context"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// Proposer is a store that grants a name with a fencing token that its client
// gives: one of several servers that must agree on it.
type Proposer interface {
	store.Store

	// Propose is Acquire with tokens given. A token that is not above the
	// name's counter is refused as [store.StatusBehind], with the counter,
	// unless it is the one that the owner has the name with. An owner who has
	// it with a lower token gets this one. Places in line are ignored.
	//
	// The counter is the highest token that was granted for the name, or is
	// reserved. It outlives the lease, and a token that the Store picks itself
	// is above it too. Counters of free names may be forgotten, if all later
	// answers are as if each were as high as the highest forgotten.
	Propose(ctx context.Context, proposals []Proposal) []store.Grant
}

// Proposal asks for a name with a token.
type Proposal struct {
	store.Claim
	// Fence is the fencing token to be granted: positive.
	Fence int64
	// Reserve is how many tokens above Fence are to be the owner's too: 0 to
	// [store.MaxReserved].
	Reserve int
}
