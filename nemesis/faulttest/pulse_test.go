//go:build unix

package faulttest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// pulse notices when the machine is too busy to run this process, or a server. A process that
// does not run can't be told of a loss in time, which the lock's contract says; so
// a trial in which that happened proves nothing, for or against, and is held again.
type pulse struct {
	log    func(format string, args ...any)
	unfair time.Duration

	mu    sync.Mutex
	last  time.Time // the latest beat
	stops []stop
}

// stop is a time for which nothing ran, or a server did not answer.
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
// in which there is one would be unfair, of this process and of servers.
func feel(t *testing.T, unfair time.Duration, servers ...*redistest.Server) *pulse {
	t.Helper()
	p := &pulse{log: t.Logf, unfair: unfair, last: time.Now()}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(beatEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-over:
				return
			}
			for _, s := range servers {
				_ = s.Do("PING").Error() // what counts is how long it takes
			}
			p.beat()
		}
	}()
	t.Cleanup(func() { close(over); <-done })
	return p
}

func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if gap := now.Sub(p.last); gap > p.unfair {
		p.stops = append(p.stops, stop{now, gap})
	}
	p.last = now
}

// book notes a stop that a test has noticed itself.
func (p *pulse) book(lasted time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stops = append(p.stops, stop{time.Now(), lasted})
}

// stopped tells the longest stop since an instant, one included that may not be over.
func (p *pulse) stopped(since time.Time) (longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if gap := time.Since(p.last); gap > p.unfair {
		longest = gap
	}
	for _, s := range p.stops {
		if s.end.After(since) {
			longest = max(longest, s.lasted)
		}
	}
	return longest
}

// fairly holds a trial until it goes well, or goes wrong although everything ran all the while.
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
		p.log("a trial is void: this process or a server did not run for %v of it", longest)
	}
}
