package memory

import "github.com/lockbeat/lockbeat/renewer/store"

// Engine is what a Store is to a keeper.
type Engine = engine

// Engine has an Engine be a renewer.Store.
func (s *engine) Engine() store.Store { return s }

// Kept returns how many names s remembers, lapsed ones included.
func Kept(s *engine) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

// Watched returns how many names s has watchers for.
func Watched(s *engine) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watchers.of)
}

// Recorded returns how many records s remembers, lapsed ones included.
func Recorded(s *engine) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.records.byName)
}

// Proposed returns how many names s remembers proposed tokens of, those of free
// names included.
func Proposed(s *engine) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tokens.counters)
}

// Broken returns how many broken leases s remembers, lapsed ones included.
func Broken(s *engine) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.broken)
}

// Processes returns how many processes hear of broken leases from s.
func Processes(s *engine) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lookers.of)
}
