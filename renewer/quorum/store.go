package quorum

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// Store keeps locks in several independent stores, its nodes. It is no [renewer.Recorder]. Its
// methods may be called concurrently; [New] makes one.
type Store struct {
	nodes  []node
	write  int   // nodes that must grant one token
	keep   int   // nodes that must hold a lease for it to be valid
	order  []int // the nodes in the order that all programs agree on
	clock  *clock
	born   time.Time
	tokens tokens

	membership *membership // nil if there is nothing to compare

	acquiring chan struct{} // has one for each acquire under way; heartbeats and releases need none

	background context.Context //nolint:containedctx // ends with Close
	stop       context.CancelFunc

	mu       sync.Mutex // guards what follows, and what the ledger leads to
	table    leaseTable
	cleaners []*cleaner
}

var _ renewer.Store = (*Store)(nil)

// node is one of the stores.
type node struct {
	store renewer.Store
	name  string
	late  [kinds]atomic.Int64 // calls that nobody waits for any more, by kind
}

// New returns a store on an odd number of nodes, which stay the caller's. A lock is
// granted by a majority of them: with n nodes and [Forgetful](a), by ⌊(n+a)/2⌋+1. One node
// works too, and more can be added when all programs that share the locks are stopped.
//
// Errors are [renewer.ErrConfig] and name every fault: no nodes, an even number, a nil, the same
// store or Redis server twice, options out of range. If the nodes are named ([Names], [Named]),
// New asks them, for at most a second, whether two of them are the same server, or one is used
// by a quorum of other nodes or options: that is [ErrMixed]. Nodes that can't be reached are no
// error, since they may come back; [Logger] hears of them, and [Store.Check] tells.
func New(nodes []renewer.Store, opts ...Option) (*Store, error) {
	s, err := configure(nodes, opts)
	if err != nil {
		return nil, err
	}
	if s.membership == nil {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	if err := s.introduce(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func newStore(nodes []renewer.Store, c settings, write int) *Store {
	s := &Store{
		nodes: make([]node, len(nodes)),
		write: write,
		// A lease that is held on this many nodes shares more than
		// c.forgetful with whoever is granted it next.
		keep:   len(nodes) + c.forgetful + 1 - write,
		clock:  newClock(),
		tokens: tokens{clock: time.Now},
		born:   time.Now(),
		table:  leaseTable{leases: make(map[key]*lease)},
		order:  make([]int, len(nodes)),

		acquiring: make(chan struct{}, maxAcquires),
	}
	s.background, s.stop = context.WithCancel(context.Background())
	for i := range nodes {
		s.nodes[i].store, s.nodes[i].name = nodes[i], nodeName(c.names, i)
		s.order[i] = i
		s.cleaners = append(s.cleaners, &cleaner{s: s, node: i, wake: make(chan struct{}, 1)})
	}
	if c.names != nil {
		slices.SortFunc(s.order, func(i, j int) int {
			return strings.Compare(c.names[i], c.names[j])
		})
		s.membership = newMembership(c, write)
	}
	return s
}

// age is the monotonic time since the store was made. Unlike the
// clock's it never jumps ahead, so that what must settle does.
func (s *Store) age() time.Duration { return 1 + time.Since(s.born) } // 1, so that 0 can mean none

// Settle returns the longest of the nodes'.
func (s *Store) Settle() time.Duration {
	var most time.Duration
	for i := range s.nodes {
		most = max(most, s.nodes[i].store.Settle())
	}
	return most
}

// Close ends what goes on in the background: waiting for nodes that are late, and
// cleaning up behind those that did not answer, whose keys then lapse with their
// TTL. Call it after [renewer.Keeper.Shutdown] and before closing the nodes,
// which stay the caller's. It may be called more than once, and does not wait.
func (s *Store) Close() { s.stop() }
