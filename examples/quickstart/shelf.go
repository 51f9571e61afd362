package main

import (
	"errors"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/renewer"
)

const (
	// pageTime is how long it takes to render a page.
	pageTime = 25 * time.Millisecond
	// soon is how long a task stays in its queue when it has not had its lock to the end.
	soon = 300 * time.Millisecond
)

func retryDelay(n int, err error, task *asynq.Task) time.Duration {
	if errors.Is(err, renewer.ErrLost) {
		return soon
	}
	return asynq.DefaultRetryDelayFunc(n, err, task)
}

// errStale means that a later holder of the lock has written a page of the user's.
var errStale = errors.New("a later holder of the lock has been here")

// shelf is where the pages go: a database in real life. It refuses a page with a lower fencing
// token than it has seen for the user. That stops even a process that was paused for so long that
// it does not know yet that its lock is lost.
type shelf struct {
	mu    sync.Mutex
	done  map[string]int   // pages by report
	fence map[string]int64 // highest by user
	stale int              // pages refused
}

func newShelf() *shelf { return &shelf{done: make(map[string]int), fence: make(map[string]int64)} }

func (s *shelf) pages(r Report) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done[r.ID]
}

func (s *shelf) put(r Report, page int, fence int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fence < s.fence[r.User] {
		s.stale++
		return errStale
	}
	s.fence[r.User], s.done[r.ID] = fence, page+1
	return nil
}
