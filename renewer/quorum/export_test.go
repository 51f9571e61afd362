package quorum

import "time"

// SetClock sets what s takes tokens from.
func SetClock(s *Store, now func() time.Time) { s.tokens.clock = now }

// Known returns how many leases s knows of.
func Known(s *Store) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.table.leases)
}

// Planned returns how much s has yet to clean up.
func Planned(s *Store) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.cleaners {
		n += len(c.planned)
	}
	return n
}

// Late returns how many calls of a node nobody waits for any more.
func Late(s *Store, node int) int64 {
	return s.nodes[node].late[acquires].Load() + s.nodes[node].late[other].Load()
}

// MostLate is how many there may be.
const MaxLate = maxLate

// Elapsed is the time between two looks at both clocks.
func Elapsed(monotonic, wall time.Duration) time.Duration { return elapsed(monotonic, wall) }

// RosterEvery is how often nodes are compared.
const MembershipEvery = membershipEvery

// RosterTTL is how long what was said is remembered.
const MembershipTTL = membershipTTL

// OwnNames are the names that a quorum uses on its nodes.
var OwnNames = []string{membershipName, probeName}
