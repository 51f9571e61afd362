package timing

import "time"

// Instant is a point of local time in nanoseconds since a [Clock] was made. It counts monotonic
// time and the time for which the machine was suspended meanwhile, where the system reports it:
// the clock of a server goes on while this machine is suspended.
type Instant int64

// Never is later than every instant that is reached.
const Never = Instant(1<<63 - 1)

// Add returns the instant d later: Never if no clock reaches it. So the longest duration means "no
// limit".
func (t Instant) Add(d time.Duration) Instant {
	if d > 0 && t > Never-Instant(d) {
		return Never
	}
	return t + Instant(d)
}

// Sub returns the time from u to t.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }
