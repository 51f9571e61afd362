package simtest_test

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// trace is the story of a world, for a developer who plays one again with
// -sim.trace.
type trace struct {
	wanted bool

	mu    sync.Mutex
	lines []string
}

// note writes down what happened at an instant. Formatting it is most
// of its price, so it takes its arguments as they are.
func (r *trace) note(now time.Duration, format string, args ...any) {
	if !r.wanted {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf("%14.6fs  %s", now.Seconds(),
		fmt.Sprintf(format, args...)))
}

// tell prints the story.
func (r *trace) tell(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.lines {
		t.Log(line)
	}
}
