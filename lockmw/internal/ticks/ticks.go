// Package ticks has what adapters for schedulers need to run a tick once: how
// close together a schedule's ticks come, how long a lock must outlive a run
// so that nodes whose clocks differ do not run the same tick, and whether a
// tick comes too late to be run at all. Package cronmw derives the bounds.
package ticks

import (
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// DefaultHold is how long a tick's lock is held at least, unless that
// is more than half of the time between two ticks.
const DefaultHold = 5 * time.Second

// Schedule says when work is due: Next is the first tick later than t, the
// zero time if there is none. robfig/cron's schedules are of this kind.
type Schedule interface{ Next(t time.Time) time.Time }

// Hold is for how long a tick belongs to the node that took it.
type Hold struct {
	// Least is how long its lock is held, however short the run.
	Least time.Duration
	// Grace bounds how late a node may notice the tick, and then how long it may ask for the lock.
	Grace time.Duration
}

// NewHold checks what the user wants, 0 for the default, against the
// shortest time between two ticks, 0 if that is unknown.
func NewHold(least, shortest time.Duration) (Hold, error) {
	switch {
	case least < 0:
		return Hold{}, fmt.Errorf("%w: HoldAtLeast is %v: it can't be negative; leave it 0 for "+
			"the default (%v)", renewer.ErrConfig, least, DefaultHold)
	case least == 0 && shortest == 0:
		least = DefaultHold
	case least == 0:
		least = min(DefaultHold, shortest/2)
	case shortest > 0 && least >= shortest:
		return Hold{}, fmt.Errorf("%w: HoldAtLeast is %v, but the schedule has ticks %v apart, "+
			"so that the lock of one would swallow the next: take at most half of that (%v), "+
			"or 0 for the default", renewer.ErrConfig, least, shortest, shortest/2)
	}
	// Stores count in milliseconds, and round up: an interval less a
	// nanosecond would be the interval.
	least = least.Truncate(time.Millisecond)
	if _, err := renewer.Millis(least / grace); err != nil {
		return Hold{}, fmt.Errorf("%w: HoldAtLeast comes to %v: it must be at least %v, and much "+
			"more than clocks differ",
			renewer.ErrConfig, least, grace*time.Millisecond)
	}
	return Hold{Least: least, Grace: least / grace}, nil
}

// grace is the part of Least that a node may be late by, and again
// the part that it may ask for. What is left, half, is for clocks.
const grace = 4

// Late reports whether no tick was due in the time before now that a node may be late by. A node
// that was paused over a tick must not run it: another has, and its lock may have lapsed since.
func (h Hold) Late(s Schedule, now time.Time) bool {
	due := s.Next(now.Add(-h.Grace))
	return due.IsZero() || due.After(now)
}
