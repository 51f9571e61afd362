package quorum

import (
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// SetClock sets what s takes tokens from.
func SetClock(s *Store, now func() time.Time) { s.tokens.clock = now }

// Known returns how many leases s knows of.
func Known(s *Store) int {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	return len(s.table.leases)
}

// Planned returns how much s has yet to clean up.
func Planned(s *Store) (n int) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	for _, c := range s.cleaners {
		n += len(c.planned)
	}
	return n
}

// Late returns how many calls of a node are late: no caller waits for them any more.
func Late(s *Store, node int) int64 {
	late := &s.nodes.all[node].late
	return late[acquires].Load() + late[other].Load()
}

// MaxLate is how many there may be.
const MaxLate = maxLate

// Elapsed is the time between two readings of both clocks.
func Elapsed(monotonic, wall time.Duration) time.Duration { return elapsed(monotonic, wall) }

// MembershipEvery is how often nodes are compared.
const MembershipEvery = membershipEvery

// MembershipTTL is how long an announcement is remembered.
const MembershipTTL = membershipTTL

// OwnNames are the names that a quorum uses on its nodes.
var OwnNames = []string{membershipName, probeName}

// Majority is a count of answers.
type Majority struct{ m majority }

// NewMajority starts a count.
func NewMajority(nodes int) *Majority { return &Majority{newMajority(nodes)} }

// Count adds one node's answer.
func (m *Majority) Count(s store.Status) { m.m.count(s) }

// Silent is how many nodes have not answered.
func (m *Majority) Silent() int { return int(m.m.silent()) }

// Reached, Reachable, Refused and Unavailable are what the count says.
func (m *Majority) Reached() bool     { return m.m.reached() }
func (m *Majority) Reachable() bool   { return m.m.reachable() }
func (m *Majority) Refused() bool     { return m.m.refused() }
func (m *Majority) Unavailable() bool { return m.m.unavailable() }
