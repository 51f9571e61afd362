package quorum

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// maxAcquires is how many acquires there are at once. Each costs a goroutine
// for each node, and takes the table's mutex several times. Heartbeats take
// that mutex too, and would wait behind a crowd of thousands for longer than
// the nodes take.
const maxAcquires = 256

// Store keeps locks in several independent stores, its nodes. Its methods may
// be called concurrently.
type Store struct{ engine *engine }

// New returns a store on an odd number of nodes, which stay the caller's. One
// works too.
//
// Errors are [renewer.ErrConfig] and name every fault: an even number, a nil,
// the same store or Redis server twice, options out of range. If the nodes are
// named ([Names]), New asks them, for at most a second, whether two of them are
// the same server, or one is used by a quorum of other nodes: [ErrMixed]. Nodes
// that can't be reached are no error; [Log] hears of them.
func New(nodes []renewer.Store, opts ...Option) (*Store, error) {
	engines := make([]store.Store, len(nodes))
	for i, node := range nodes {
		if !isNil(node) {
			engines[i] = node.Engine()
		}
	}
	s, err := newEngine(engines, opts)
	if err != nil {
		return nil, err
	}
	return &Store{s}, nil
}

// Engine is for renewer.New.
func (s *Store) Engine() store.Store { return s.engine }

// Check asks every node, for a program that should rather not start than wait.
// The error is [renewer.ErrUnavailable] if fewer answer than a grant needs
// before ctx ends, and [ErrMixed] if one is used by another quorum. It takes no
// lock.
func (s *Store) Check(ctx context.Context) error { return s.engine.check(ctx) }

// Close ends the work in the background, such as cleaning up behind nodes that
// did not answer. Call it after [renewer.Keeper.Shutdown] and before closing
// the nodes. It may be called more than once, and does not wait.
func (s *Store) Close() { s.engine.nodes.stop() }

// engine asks the nodes.
//
// Its parts know nothing of it: the nodes ([broadcast] asks them), the leases
// that it knows (leaseTable), who frees what is left behind (cleaner), and what
// other programs say of their nodes (membership).
type engine struct {
	nodes    *nodeSet
	order    []int // the nodes in the order that all programs agree on
	tokens   tokens
	table    *leaseTable
	cleaners cleaners

	membership *membership // nil if there is nothing to compare

	leastTTL  time.Duration
	acquiring chan struct{} // has one for each acquire under way; heartbeats and releases need none
}

var _ contract.Tuned = (*engine)(nil)

// newEngine asks the nodes of each other, if they are named.
func newEngine(nodes []store.Store, opts []Option) (*engine, error) {
	c, err := configure(nodes, opts)
	if err != nil {
		return nil, err
	}
	s := newUnasked(nodes, c)
	if s.membership != nil {
		ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
		defer cancel()
		if err := s.membership.introduce(ctx); err != nil {
			return nil, err // all that was asked has ended
		}
	}
	return s, nil
}

func newUnasked(stores []store.Store, c settings) *engine {
	nodes := newNodeSet(stores, c.names)
	table := &leaseTable{nodes: nodes, leases: make(map[key]*lease)}
	s := &engine{
		nodes:     nodes,
		order:     make([]int, len(stores)),
		tokens:    tokens{clock: time.Now},
		table:     table,
		cleaners:  newCleaners(nodes, table),
		acquiring: make(chan struct{}, maxAcquires),
	}
	for i, node := range stores {
		s.order[i] = i
		if tuned, ok := node.(contract.Tuned); ok {
			s.leastTTL = max(s.leastTTL, tuned.LeastTTL())
		}
	}
	if c.names != nil {
		slices.SortFunc(s.order, func(i, j int) int {
			return strings.Compare(c.names[i], c.names[j])
		})
		s.membership = newMembership(nodes, c)
	}
	return s
}

// Settle returns the longest of the nodes'.
func (s *engine) Settle() time.Duration {
	var longest time.Duration
	for x := range s.nodes.all {
		longest = max(longest, s.nodes.settle(x))
	}
	return longest
}

// LeastTTL returns the longest of the nodes'.
func (s *engine) LeastTTL() time.Duration { return s.leastTTL }
