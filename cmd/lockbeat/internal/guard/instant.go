//go:build unix

package guard

import "time"

// Instant is a point of a clock that all processes of the machine share, in
// nanoseconds.
type Instant int64

// Add returns the instant d later.
func (t Instant) Add(d time.Duration) Instant { return t + Instant(d) }

// Deadline is until when the command may run.
type Deadline struct {
	// Term is when it is asked to end.
	Term Instant
	// Kill is when every process of it is killed.
	Kill Instant
	// Late is when the wrapper no longer trusts the guard to do it. The lease
	// lasts somewhat longer than this.
	Late Instant
}

// plan is when to do what. It is an idea of its own so that it can be tested
// without processes.
type plan struct {
	deadline Deadline // the latest that the wrapper has told
	grace    time.Duration
	ending   bool
	kill     Instant // at the latest, once ending
}

// end begins the end, and reports whether it had not begun.
func (p *plan) end(now Instant) bool {
	if p.ending {
		return false
	}
	p.ending, p.kill = true, now.Add(p.grace)
	return true
}

// due reports whether it is time to end.
func (p *plan) due(now Instant) bool { return !p.ending && now >= p.deadline.Term }

// next is when there is something to do: to end, and after that to kill.
func (p *plan) next() Instant {
	if p.ending {
		return min(p.kill, p.deadline.Kill)
	}
	return p.deadline.Term
}
