package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw"
)

// Report is the payload of a task: so many pages to be rendered for a user.
type Report struct {
	ID    string
	User  string
	Pages int
}

// renderReport is the type of its tasks.
const renderReport = "report:render"

// newTask is the task that orders a report.
func newTask(r Report) (*asynq.Task, error) {
	payload, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return asynq.NewTask(renderReport, payload), nil
}

// pageTime is how long it takes to render a page.
const pageTime = 50 * time.Millisecond

// errStale means that somebody else has been at work on a user's reports since.
var errStale = errors.New("a later holder of the lock has been here")

// press renders reports. It asks for no lock. It works page by page, so
// that it stops soon when its context ends, and goes on where it stopped.
type press struct{ shelf *shelf }

func (p press) render(ctx context.Context, r Report) error {
	for page := p.shelf.pages(r); page < r.Pages; page++ {
		select {
		case <-time.After(pageTime):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := p.shelf.put(r, page, lockmw.Fence(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// shelf is where the pages go, a database in real life. It refuses those that come
// with a lower fencing token than it has seen for the user: that stops even a
// process that was paused for so long that it does not know yet what it has lost.
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
	s.fence[r.User] = fence
	s.done[r.ID] = page + 1
	return nil
}

func (s *shelf) refused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stale
}
