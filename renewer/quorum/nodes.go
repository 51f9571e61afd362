package quorum

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// minGrace is how long at least a silent node is waited for when the others
// have answered and another owner contends: a caller that waits keeps what the
// other needs.
const minGrace = 5 * time.Millisecond

// node is one of the stores.
type node struct {
	store contract.Proposer
	name  string              // for errors
	late  [kinds]atomic.Int64 // calls for which no caller waits any more, by kind
	// silentSince is when the first acquire was sent, by age, that the node has
	// not answered, of those since its last answer to one whose callers have
	// gone on without it; 0: none.
	silentSince atomic.Int64
}

// answered notes what the node says to a claim. An error is no answer: it may
// be a timeout.
func (n *node) answered(status store.Status) {
	if status != store.StatusUnknown {
		n.silentSince.Store(0)
	}
}

// silentFor is for how long the node has not answered acquires.
func (n *node) silentFor(age time.Duration) time.Duration {
	if since := n.silentSince.Load(); since != 0 {
		return age - time.Duration(since)
	}
	return 0
}

// silent reports whether callers who contend have waited for the node for as
// long as they do.
func (n *node) silent(age time.Duration) bool { return n.silentFor(age) >= minGrace }

// kind is what a late call is counted with. A node that is slow for a crowd of
// acquires is still asked for heartbeats and releases.
type kind uint8

const (
	other kind = iota
	acquires
	kinds
)

// nodeSet has the nodes, and what their background work shares. It does not
// change.
type nodeSet struct {
	all   []node
	clock *timing.Clock // for what nodes confirm: it counts the time for which the machine slept
	born  time.Time

	background context.Context //nolint:containedctx // ends with Close
	stop       context.CancelFunc
}

func newNodeSet(stores []store.Store, names []string) *nodeSet {
	n := &nodeSet{
		all: make([]node, len(stores)), clock: timing.NewClock(timing.Slept), born: time.Now(),
	}
	n.background, n.stop = context.WithCancel(context.Background())
	for i := range stores {
		//nolint:forcetypeassert // configure has looked
		n.all[i].store = stores[i].(contract.Proposer)
		n.all[i].name = nodeName(names, i)
	}
	return n
}

// age is the monotonic time since the store was made, plus 1 so that 0 can mean
// none. Unlike the clock it never jumps ahead, so that a request has the whole
// of its time to settle.
func (n *nodeSet) age() time.Duration { return 1 + time.Since(n.born) }

// nodeName is what errors call a node.
func nodeName(names []string, i int) string {
	name := "node " + strconv.Itoa(i+1)
	if len(names) > i {
		name += " (" + names[i] + ")"
	}
	return name
}

// settle is how long after it was sent an unanswered request may take effect on
// a node.
func (n *nodeSet) settle(node int) time.Duration { return n.all[node].store.Settle() }

// closed reports whether the store was closed.
func (n *nodeSet) closed() bool { return n.background.Err() != nil }
