package main

import (
	"errors"
	"sync"
	"time"
)

// errStale means that a later holder of the lock has sold.
var errStale = errors.New("a later holder of the lock has been here")

// show is what is sold, and where it is written down: a database in real life. Two that read, think
// and write at once sell one seat twice.
type show struct {
	name  string
	think time.Duration

	mu     sync.Mutex
	sold   int
	fence  int64 // the highest token that has come with a sale
	first  int64 // and the first one
	inside int
	most   int // at work at once
	stale  int
}

// enter reads which seat is next, and counts who is at work until leave is called.
func (s *show) enter() (seat int, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside++
	s.most = max(s.most, s.inside)
	return s.sold + 1, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inside--
	}
}

func (s *show) write(seat int, fence int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fence < s.fence {
		s.stale++
		return errStale
	}
	if s.first == 0 {
		s.first = fence
	}
	s.sold, s.fence = seat, fence
	return nil
}
