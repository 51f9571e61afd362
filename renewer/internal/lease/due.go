package lease

import (
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// StoppedAtOnce is within what time an operation returns that stops as soon as it is told.
const StoppedAtOnce = 10 * time.Millisecond

// NextDue is when the lease is to be attended to: when belief in it ends, or observers are to hear
// that its operation still runs.
func (b *Belief[E]) NextDue(r *Rules) timing.Instant {
	switch b.state {
	case stateHeld:
		return min(b.Until(), b.nextWarning(r))
	case stateLost:
		return b.nextWarning(r)
	default:
		return timing.Never
	}
}

// IsOver reports whether belief in a held lease has ended by the clock.
func (b *Belief[E]) IsOver(now timing.Instant) bool {
	return b.state == stateHeld && b.Until() <= now
}

// nextWarning is when observers are to hear that the operation still runs: when others can have the
// lock, since it is lost; and after Rules.HoldWarning, twice that, and so on.
func (b *Belief[E]) nextWarning(r *Rules) timing.Instant {
	switch after := r.HoldWarning; {
	case b.state == stateLost && !b.extras.overran:
		return b.extras.lostAt.Add(max(b.extras.notice, StoppedAtOnce))
	case after < 0, after > time.Duration(timing.Never)>>b.warned: // by neverWarned
		return timing.Never
	default:
		return b.acquired.Add(after << b.warned)
	}
}

// Warned notes that observers are told now.
func (b *Belief[E]) Warned(r *Rules, now timing.Instant) {
	if b.state == stateLost {
		b.extras.overran = true
	}
	for b.nextWarning(r) <= now {
		b.warned++
	}
}

// Times is for how long the lease has been held, and for how long its operation has run on since it
// was lost.
func (b *Belief[E]) Times(now timing.Instant) (heldFor, overrun time.Duration) {
	if at := b.LostAt(); at != 0 {
		return at.Sub(b.acquired), now.Sub(at)
	}
	return now.Sub(b.acquired), 0
}

// LostAt is when the lease was lost, 0 if it was not, or only found so at the release.
func (b *Belief[E]) LostAt() timing.Instant {
	if b.extras == nil {
		return 0
	}
	return b.extras.lostAt
}

// Noticed is from when the key of a lost lease may be released: its operation has had the notice of
// a Margin that it was promised, or will have had it when HoldAtLeast ends, before which no other
// owner can have the lock.
func (b *Belief[E]) Noticed(r *Rules) timing.Instant {
	at := b.extras.lostAt.Add(r.Margin)
	if b.extras.least >= at {
		return b.extras.lostAt
	}
	return at
}
