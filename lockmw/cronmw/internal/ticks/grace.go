package ticks

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

const (
	// A schedule's ticks are looked at until there were so many...
	lookTicks = 3000
	// ...or so much time has passed: four years have a 29th of February.
	lookAhead = 4 * 366 * 24 * time.Hour
	// This many gaps between ticks are tried before a schedule is held
	// to have none that nodes agree on: one may be where clocks are put
	// forward or back, where parsers of crontabs have their quirks.
	gapsTried = 3
)

// Shortest is the shortest time between two of the schedule's next ticks after
// from: some 3,000, which is days of a tick a minute and years of a tick a day.
// It is 0 if there is only one. A schedule without ticks is an error, and so is
// one whose ticks depend on when it is asked, as "every 30 s from now on" does:
// no two nodes would have the same.
func Shortest(s Schedule, from time.Time) (shortest time.Duration, err error) {
	tick := s.Next(from)
	if tick.IsZero() {
		return 0, fmt.Errorf("%w: the schedule has no tick", renewer.ErrConfig)
	}
	agreed := false
	for i := range lookTicks {
		next := s.Next(tick)
		if next.IsZero() || next.Sub(from) > lookAhead {
			break
		}
		gap := next.Sub(tick)
		if gap <= 0 {
			return 0, fmt.Errorf("%w: the schedule stands still: after %v it names %v as the "+
				"next tick", renewer.ErrConfig, tick, next)
		}
		agreed = agreed || s.Next(tick.Add(gap/2)).Equal(next)
		if i+1 == gapsTried && !agreed {
			return 0, fmt.Errorf("%w: the schedule's ticks depend on when it is asked, so that "+
				"no two nodes have the same ones: "+
				"take one that follows the clock, such as cronmw.Every(%v)", renewer.ErrConfig, gap)
		}
		if shortest == 0 || gap < shortest {
			shortest = gap
		}
		tick = next
	}
	return shortest, nil
}

// MaxGrace is the longest grace that a job has by default.
const MaxGrace = 15 * time.Minute

// NewGrace is how long after it is due a tick may still be begun: what the user
// wants, or if that is 0 half of the shortest time between two ticks, at most
// [MaxGrace]. shortest is 0 if that time is not known.
func NewGrace(want, shortest time.Duration) (time.Duration, error) {
	usual := MaxGrace
	if shortest > 0 {
		usual = min(shortest/2, MaxGrace)
	}
	grace := cmp.Or(want, usual).Truncate(time.Millisecond)
	switch {
	case want < 0:
		return 0, fmt.Errorf("%w: Grace is %v: it can't be negative; leave it 0 for the default "+
			"(half of the interval, at most %v)", renewer.ErrConfig, want, MaxGrace)
	case shortest > 0 && want > shortest:
		return 0, fmt.Errorf("%w: Grace is %v, but the schedule has ticks %v apart, so that a "+
			"tick would be begun after the next one: take at most that, or 0 for the default (%v)",
			renewer.ErrConfig, want, shortest, usual)
	case grace == 0:
		return 0, fmt.Errorf("%w: Grace comes to %v: it must be at least 1ms, and is by default "+
			"half of the time between two ticks", renewer.ErrConfig, grace)
	}
	return grace, nil
}
