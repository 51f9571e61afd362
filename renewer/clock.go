package renewer

import (
	"sync/atomic"
	"time"
)

// instant is a point of local time in nanoseconds since the keeper was
// made. It counts monotonic time *and* the time for which the machine slept
// meanwhile, where the system can tell: the store's clock did not sleep.
type instant int64

// never is later than every instant that is reached.
const never = instant(1<<63 - 1)

// add is never for a sum that no clock reaches, such as that of the longest duration, which means
// "no limit".
func (t instant) add(d time.Duration) instant {
	if d > 0 && t > never-instant(d) {
		return never
	}
	return t + instant(d)
}

func (t instant) sub(u instant) time.Duration { return time.Duration(t - u) }

// leastSleep is the shortest sleep that counts. Less is the jitter of reading two clocks.
const leastSleep = time.Millisecond

// clock tells instants.
type clock struct {
	start  time.Time
	total  func() time.Duration // time slept since the machine was booted
	base   time.Duration        // the same when start was taken
	slept  atomic.Int64         // time slept since, as last seen
	looked atomic.Int64         // when recent last looked for it
}

func newClock(total func() time.Duration) *clock {
	return &clock{start: time.Now(), total: total, base: total()}
}

// now is exact, and right on the first instruction after a pause or a suspend.
func (c *clock) now() instant {
	seen := c.slept.Load()
	if slept := int64(c.total() - c.base); slept-seen >= int64(leastSleep) {
		c.slept.CompareAndSwap(seen, slept) // whoever wins has seen the same sleep
	}
	return c.atMost()
}

// recentFor is how long recent goes without looking for sleep.
const recentFor = time.Millisecond

// recent is now, or earlier by a sleep in the last millisecond that the machine
// was awake. It is for what happens too often to make system calls each time.
func (c *clock) recent() instant {
	t := c.atMost()
	if last := c.looked.Load(); t.sub(instant(last)) > recentFor &&
		c.looked.CompareAndSwap(last, int64(t)) {
		return c.now()
	}
	return t
}

// atMost is now, or earlier by a sleep that nobody has noticed yet.
// It saves now's system calls where that does no harm: as the start
// of a request, from which a deadline is counted, early is safe.
func (c *clock) atMost() instant {
	return 1 + instant(int64(time.Since(c.start))+c.slept.Load()) // 1, so that 0 can mean "none"
}
