package quorum

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// node is one of the stores.
type node struct {
	store renewer.Store
	name  string              // for errors
	late  [kinds]atomic.Int64 // calls for which no caller waits any more, by kind
}

// kind is what a late call is counted with. A node that is slow for a crowd of acquires is still
// asked for heartbeats and releases.
type kind uint8

const (
	other kind = iota
	acquires
	kinds
)

// nodeSet has the nodes, and what their background work shares. It does not change.
type nodeSet struct {
	all   []node
	clock *clock

	background context.Context //nolint:containedctx // ends with Close
	stop       context.CancelFunc
}

func newNodeSet(stores []renewer.Store, names []string) *nodeSet {
	n := &nodeSet{all: make([]node, len(stores)), clock: newClock()}
	n.background, n.stop = context.WithCancel(context.Background())
	for i := range stores {
		n.all[i].store, n.all[i].name = stores[i], nodeName(names, i)
	}
	return n
}

// nodeName is what errors call a node.
func nodeName(names []string, i int) string {
	name := "node " + strconv.Itoa(i+1)
	if len(names) > i {
		name += " (" + names[i] + ")"
	}
	return name
}

// settle is how long after it was sent an unanswered request may take effect on a node.
func (n *nodeSet) settle(node int) time.Duration { return n.all[node].store.Settle() }

// closed reports whether the store was closed.
func (n *nodeSet) closed() bool { return n.background.Err() != nil }
