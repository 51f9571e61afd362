package quorum

import (
	"sync"
	"time"
)

// instant is a point of local time in nanoseconds since the store was made, 0 for
// none. Time for which the machine slept counts: the nodes' clocks did not sleep.
type instant int64

func (t instant) sub(u instant) time.Duration { return time.Duration(t - u) }

// leastSleep is the shortest sleep that counts. Less is the jitter of reading two clocks.
const minSleep = time.Millisecond

// clock tells instants. Go's monotonic clock stands still while a machine is suspended, the wall
// clock does not; what the latter runs ahead between two looks counts as sleep. If somebody has
// set it forward meanwhile, what is remembered seems older than it is, which is the safe side.
type clock struct {
	mu   sync.Mutex
	last time.Time
	at   instant
}

func newClock() *clock { return &clock{last: time.Now(), at: 1} }

func (c *clock) now() instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now() // under the lock, so that no later caller sees an earlier time
	c.at += instant(elapsed(now.Sub(c.last), now.Round(0).Sub(c.last.Round(0))))
	c.last = now
	return c.at
}

// elapsed is the time between two looks at both clocks.
func elapsed(monotonic, wall time.Duration) time.Duration {
	if wall-monotonic >= minSleep {
		return wall
	}
	return monotonic
}
