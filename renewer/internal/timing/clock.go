// Package timing is what the engine knows of time: a [Clock] that counts the
// time for which the machine was suspended, a [Wheel] that orders elements by
// instants, and a [Loop] that steps when an instant has come. It knows no
// lease.
package timing

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// leastSleep is the shortest suspend that counts. Less is the jitter of reading
// two clocks.
const leastSleep = time.Millisecond

// Clock reads the time. All methods may be called concurrently.
type Clock struct {
	start  time.Time
	total  func() time.Duration // for which the machine was suspended since it was booted
	base   time.Duration        // the same when start was taken
	slept  atomic.Int64         // for which it was suspended since, as last seen
	looked atomic.Int64         // when Recent last looked for it
}

// NewClock returns a clock that starts now. slept returns for how long the
// machine has been suspended since it was booted: [Slept], other than in tests.
func NewClock(slept func() time.Duration) *Clock {
	return &Clock{start: time.Now(), total: slept, base: slept()}
}

// Now is exact, and right on the first instruction after a pause or a suspend.
func (c *Clock) Now() Instant {
	seen := c.slept.Load()
	if slept := int64(c.total() - c.base); slept-seen >= int64(leastSleep) {
		c.slept.CompareAndSwap(seen, slept) // the caller that wins has seen the same sleep
	}
	return c.AtMost()
}

// recentFor is how long Recent goes without looking for a suspend.
const recentFor = time.Millisecond

// Recent is Now, or earlier by a suspend in the last millisecond that the
// machine was awake. It is for what happens too often to make system calls each
// time.
func (c *Clock) Recent() Instant {
	t := c.AtMost()
	if last := c.looked.Load(); t.Sub(Instant(last)) > recentFor &&
		c.looked.CompareAndSwap(last, int64(t)) {
		return c.Now()
	}
	return t
}

// AtMost is Now, or earlier by a suspend that no call of Now has seen yet. It
// saves the system calls of Now where that does no harm: as the start of a
// request, from which a deadline is counted, early is safe.
func (c *Clock) AtMost() Instant {
	return 1 + Instant(int64(time.Since(c.start))+c.slept.Load()) // 1, so that 0 can mean "none"
}

// Instant is a point of local time in nanoseconds since a [Clock] was made. It
// counts monotonic time and the time for which the machine was suspended
// meanwhile, where the system reports it: the clock of a server goes on while
// this machine is suspended.
type Instant int64

// Never is later than every instant that is reached.
const Never = Instant(1<<63 - 1)

// Add returns the instant d later: Never if no clock reaches it. So the longest
// duration means "no limit".
func (t Instant) Add(d time.Duration) Instant {
	if d > 0 && t > Never-Instant(d) {
		return Never
	}
	return t + Instant(d)
}

// Sub returns the time from u to t.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }

// Random is where [Jitter] comes from: a number in [0, n). The simulation plays
// with one that repeats.
var Random = rand.Int64N

// Jitter is a random duration in (0, d].
func Jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(Random(int64(d))) + 1
}
