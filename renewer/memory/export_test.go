package memory

// Kept returns how many names s remembers, lapsed ones included.
func Kept(s *Store) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

// Watched returns how many names s has watchers for.
func Watched(s *Store) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watchers.of)
}

// Recorded returns how many records s remembers, lapsed ones included.
func Recorded(s *Store) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.records.byName)
}

// Proposed returns how many names s remembers proposed tokens of, those of free names included.
func Proposed(s *Store) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tokens.counters)
}

// Broken returns how many broken leases s remembers, lapsed ones included.
func Broken(s *Store) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.broken)
}

// Processes returns how many processes hear of broken leases from s.
func Processes(s *Store) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lookers.of)
}
