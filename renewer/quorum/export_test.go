package quorum

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// Engine is what a Store is to a keeper.
type Engine = engine

// NewEngine is [New] without the face of a Store.
func NewEngine(nodes []store.Store, opts ...Option) (*Engine, error) {
	return newEngine(nodes, opts)
}

// Engine has an Engine be a renewer.Store.
func (s *engine) Engine() store.Store { return s }

// Close is [Store.Close].
func (s *engine) Close() { s.nodes.stop() }

// Check is [Store.Check].
func (s *engine) Check(ctx context.Context) error { return s.check(ctx) }

// SetClock sets what s takes tokens from.
func SetClock(s *engine, now func() time.Time) { s.tokens.clock = now }

// LogOf is where a store with these options warns.
func LogOf(opts ...Option) *slog.Logger {
	c, _ := configure(nil, opts)
	return c.log
}

// Known returns how many leases s knows of.
func Known(s *engine) int {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	return len(s.table.leases)
}

// Planned returns how much s has yet to clean up.
func Planned(s *engine) (n int) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	for _, c := range s.cleaners {
		n += len(c.planned)
	}
	return n
}

// Late returns how many calls of a node are late: no caller waits for them any
// more.
func Late(s *engine, node int) int64 {
	late := &s.nodes.all[node].late
	return late[acquires].Load() + late[other].Load()
}

// MaxLate is how many there may be.
const MaxLate = maxLate

// MembershipEvery is how often nodes are compared.
const MembershipEvery = membershipEvery

// MembershipTTL is how long an announcement is remembered.
const MembershipTTL = membershipTTL

// OwnNames are the names that a quorum uses on its nodes.
var OwnNames = []string{membershipName, probeName}
