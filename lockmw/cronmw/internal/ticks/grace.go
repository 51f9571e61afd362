package ticks

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// MaxGrace is the longest grace that a job has by default.
const MaxGrace = 15 * time.Minute

// NewGrace is how long after it is due a tick may still be begun: what the user wants, or if that
// is 0 half of the shortest time between two ticks, at most [MaxGrace]. shortest is 0 if that time
// is not known.
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
