package quorum

import (
	"time"
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

// MembershipEvery is how often nodes are compared.
const MembershipEvery = membershipEvery

// MembershipTTL is how long an announcement is remembered.
const MembershipTTL = membershipTTL

// OwnNames are the names that a quorum uses on its nodes.
var OwnNames = []string{membershipName, probeName}
