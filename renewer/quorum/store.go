package quorum

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
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

// Option changes one thing about a [Store].
type Option func(*settings)

type settings struct {
	names []string
	log   *slog.Logger
}

// Names names the nodes, in their order, for errors and for other programs:
// "redis-a", or an address without a password. Programs that have the same
// servers under the same names, in any order, have the same quorum. [New]
// refuses a program that shares a server with another quorum.
//
// Without this option nodes are numbered, and nothing is compared with other
// programs.
func Names(names ...string) Option {
	return func(s *settings) { s.names = append([]string{}, names...) }
}

// Log sets where warnings go: that too few nodes could be asked when the store
// was made, and that programs with other nodes were found later on. By default
// they go to slog.Default(); renewer.Silent is for none.
func Log(l *slog.Logger) Option { return func(s *settings) { s.log = l } }

// configure applies the options, and names every fault in one error.
func configure(nodes []store.Store, opts []Option) (settings, error) {
	c := settings{log: slog.Default()}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	var faults []string
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf(format, args...))
	}

	n := len(nodes)
	switch {
	case n == 0:
		fault("nodes: there are none; give 3 or 5 stores on servers of their own")
	case n%2 == 0:
		fault("nodes: %d is even: it needs %d for a majority and survives %d failures, as %d do; "+
			"give %d or %d", n, n/2+1, n/2-1, n-1, n-1, n+1)
	}
	for i, node := range nodes {
		if isNil(node) {
			fault("nodes: number %d is nil; check the error of what made it", i+1)
			continue
		}
		if _, ok := node.(contract.Proposer); !ok {
			fault("nodes: number %d, a %T, takes no fencing tokens from its client; "+
				"give one that does, such as redisstore's", i+1, node)
		}
		if j := slices.IndexFunc(nodes[:i], func(other store.Store) bool {
			return same(node, other)
		}); j >= 0 {
			fault("nodes: numbers %d and %d are the same store; give each server once", j+1, i+1)
		} else if j := slices.IndexFunc(nodes[:i], func(other store.Store) bool {
			return sameServer(node, other)
		}); j >= 0 {
			fault("nodes: numbers %d and %d are the same server; give each once", j+1, i+1)
		}
	}
	if c.log == nil {
		fault("Log: is nil; leave it out for slog.Default(), or give renewer.Silent")
	}
	if c.names != nil && len(c.names) != n {
		fault("Names: there are %d for %d nodes; give each node one", len(c.names), n)
	}
	for i, name := range c.names {
		if name == "" {
			fault("Names: number %d is empty; name each node, or leave the option out", i+1)
		} else if j := slices.Index(c.names[:i], name); j >= 0 {
			fault("Names: numbers %d and %d are both %q; give each server once", j+1, i+1, name)
		}
	}
	if len(faults) > 0 {
		return c, fmt.Errorf("quorum: %w: %s", renewer.ErrConfig, strings.Join(faults, "; "))
	}
	return c, nil
}

// isNil also finds the nil of a concrete store inside an interface that is not
// nil.
func isNil(s any) bool {
	v := reflect.ValueOf(s)
	return s == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// same compares stores without a panic on those that can't be compared.
func same(a, b store.Store) bool { return !isNil(b) && reflect.TypeOf(a).Comparable() && a == b }

// sameServer compares the servers of stores that know theirs, such as
// redisstore's.
func sameServer(a, b store.Store) bool {
	server := func(s store.Store) string {
		if known, ok := s.(interface{ Server() string }); ok && !isNil(s) {
			return known.Server()
		}
		return ""
	}
	return server(a) != "" && server(a) == server(b)
}
