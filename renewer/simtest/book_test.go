package simtest_test

import (
	"slices"
	"time"
)

// tenureOf is the tenure that a fencing token is from, nil if there is none. Under s.mu.
func (s *server) tenureOf(name string, fence int64) *tenure {
	for _, t := range slices.Backward(s.book[name]) {
		if t.low <= fence && fence <= t.high {
			return t
		}
	}
	return nil
}

// lapse tells until when a fencing token's owner has the name, if it
// is neither renewed nor released; 0 if it has not.
func (s *server) lapse(name string, fence int64, now time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live(name, now)
	t := s.tenureOf(name, fence)
	if t == nil || t.over {
		return 0
	}
	return s.clock.when(t.until)
}

// renewals tells how often a name was renewed.
func (s *server) renewals(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.renewed[name]
}

// held is a copy of every tenure that is not over.
func (s *server) held(now time.Duration) []tenure {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []tenure
	for name := range s.book {
		if t := s.live(name, now); t != nil {
			all = append(all, *t)
		}
	}
	return all
}

// close notes that a process ends its keeper, which may leave keys behind if it is in a hurry.
func (s *server) close(process int, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed[process] = append(s.closed[process], now)
}

// leftByClosed reports whether the keeper that a tenure was for was
// shut down before it could free it. Under s.mu.
func (s *server) leftByClosed(t *tenure, settle time.Duration) bool {
	return slices.ContainsFunc(s.closed[t.process], func(at time.Duration) bool {
		return t.from-settle <= at && at <= t.to
	})
}

// handed reports whether a lease came from hand to hand inside its process.
func (s *server) handed(key lot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenureOf(key.name, key.fence)
	return t != nil && key.fence > t.low
}
