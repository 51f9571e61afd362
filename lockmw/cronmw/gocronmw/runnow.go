package gocronmw

import (
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
)

// runnable is a job whose RunNow is told from its ticks.
type runnable struct {
	gocron.Job

	gate *gate
}

// RunNow is the scheduler's, and notes before which tick it was called: gocron asks for the lock of
// either alike.
func (r runnable) RunNow() error {
	if next, err := r.NextRun(); err == nil {
		r.gate.now.add(next)
	}
	return r.Job.RunNow()
}

// calls counts the calls of RunNow before a tick that have not asked for the lock yet.
type calls struct {
	mu    sync.Mutex
	due   time.Time
	count int
}

func (c *calls) add(due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.due.Equal(due) { // those before an earlier one were dropped, or came late
		c.due, c.count = due, 0
	}
	c.count++
}

func (c *calls) take(due time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == 0 || !c.due.Equal(due) {
		return false
	}
	c.count--
	return true
}

// isNow reports whether gocron runs the job for a call of RunNow, which is no tick, rather than for
// the tick that is due: if that is longer than the grace from now, or from now at all and there was
// such a call. Without one it is the tick's: gocron comes early for it if the clock was put back.
func (g *gate) isNow(due time.Time) bool {
	left := due.Sub(g.book.Clock())
	return left > g.book.Grace || left > 0 && g.now.take(due)
}
