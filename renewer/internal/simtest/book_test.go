package simtest_test

import (
	"math"
	"slices"
	"time"
)

// tenureOf is the tenure that was believed in, nil if there is none: the last
// one before, with that token. A server that has lost its data since may have
// granted the token once more, to another process. Under s.mu.
func (s *server) tenureOf(b *belief) (other *tenure) {
	for _, t := range slices.Backward(s.book[b.name]) {
		switch {
		case t.from > b.from || b.fence < t.low || b.fence > t.high:
		case t.process == b.process:
			return t
		case other == nil:
			other = t
		}
	}
	return other
}

// lapse tells until when the owner that a belief is of has the name, if it is
// neither renewed nor released; 0 if it has not, and for ever if the server has
// lost it.
func (s *server) lapse(b *belief, now time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live(b.name, now)
	s.liveSlots(b.name, now)
	t := s.tenureOf(b)
	if t != nil && t.disturbed {
		return math.MaxInt64
	}
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
		for _, t := range s.liveSlots(name, now) {
			all = append(all, *t)
		}
	}
	return all
}

// close notes that a process ends its keeper, which may leave keys behind if it
// is in a hurry.
func (s *server) close(process int, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed[process] = append(s.closed[process], now)
}

// leftByClosed reports whether the keeper that a tenure was for was
// shut down before it could free it. Under s.mu.
func (s *server) leftByClosed(t *tenure, settle time.Duration) bool {
	return slices.ContainsFunc(s.closed[t.process], func(at time.Duration) bool {
		return t.claimed-settle <= at && at <= t.to
	})
}

// handed reports whether a lease came from hand to hand inside its process.
func (s *server) handed(b *belief) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenureOf(b)
	return t != nil && b.fence > t.low
}

// disturbed reports whether the server has lost what a belief is of.
func (s *server) disturbed(b *belief) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenureOf(b)
	return t != nil && t.disturbed
}

// kill notes that a process has died, which leaves keys behind.
func (s *server) kill(inbox int, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killed[inbox] = now
}

// leftByKilled reports whether the process that a tenure was for had died.
func (s *server) leftByKilled(t *tenure) bool {
	_, dead := s.killed[t.place.inbox]
	return dead
}
