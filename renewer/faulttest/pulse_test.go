//go:build unix

package faulttest_test

import (
	"sync"
	"testing"
	"time"
)

// pulse notices when the machine is too busy to run this process. A process that
// does not run can't be told of a loss in time, which the lock's contract says; so
// a trial in which that happened proves nothing, for or against, and is held again.
type pulse struct {
	log func(format string, args ...any)

	mu    sync.Mutex
	stops []stop
}

// stop is a time for which nothing ran.
type stop struct {
	end    time.Time
	lasted time.Duration
}

const (
	beatEvery = 5 * time.Millisecond
	// tries bounds how often a trial is held.
	tries = 5
)

// feel watches, until the test ends, for stops so long that a trial
// in which there is one would be unfair.
func feel(t *testing.T, unfair time.Duration) *pulse {
	t.Helper()
	p := &pulse{log: t.Logf}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(beatEvery)
		defer ticker.Stop()
		for last := time.Now(); ; {
			select {
			case <-ticker.C:
			case <-over:
				return
			}
			now := time.Now()
			if gap := now.Sub(last); gap > unfair {
				p.mu.Lock()
				p.stops = append(p.stops, stop{now, gap})
				p.mu.Unlock()
			}
			last = now
		}
	}()
	t.Cleanup(func() { close(over); <-done })
	return p
}

// stopped tells the longest stop since an instant.
func (p *pulse) stopped(since time.Time) (longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.stops {
		if s.end.After(since) {
			longest = max(longest, s.lasted)
		}
	}
	return longest
}

// fairly holds a trial until it goes well, or goes wrong although the process ran all the while.
func (p *pulse) fairly(trial func(try int) (ok bool)) {
	for try := range tries {
		begun := time.Now()
		if trial(try) {
			return
		}
		longest := p.stopped(begun)
		if longest == 0 {
			return
		}
		p.log("a trial is void: this process did not run for %v of it", longest)
	}
}
