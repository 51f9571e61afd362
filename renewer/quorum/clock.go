package quorum

import (
	"sync"
	"time"
)

// instant is a point of local time in nanoseconds since the store was made; 0 is none. It counts
// the time for which the machine slept, since the nodes' clocks did not sleep.
type instant int64

func (t instant) sub(u instant) time.Duration { return time.Duration(t - u) }

// minSleep is the shortest sleep that counts. Less is the jitter of reading two clocks.
const minSleep = time.Millisecond

// clock reads the local time in two ways: now for what nodes confirm, age for what must settle.
//
// Go's monotonic clock stands still while a machine is suspended; the wall clock does not. If the
// wall clock has gained on the other between two readings, the difference counts as sleep. If an
// operator has set the wall clock forward meanwhile, confirmations seem older than they are, which
// is safe.
type clock struct {
	born time.Time

	mu   sync.Mutex
	last time.Time
	at   instant
}

func newClock() *clock {
	now := time.Now()
	return &clock{born: now, last: now, at: 1}
}

// now is the present instant.
func (c *clock) now() instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now() // under the lock, so that no later caller sees an earlier time
	c.at += instant(elapsed(now.Sub(c.last), now.Round(0).Sub(c.last.Round(0))))
	c.last = now
	return c.at
}

// age is the monotonic time since the store was made, plus 1 so that 0 can mean none. Unlike now
// it never jumps ahead, so that a request has the whole of its time to settle.
func (c *clock) age() time.Duration { return 1 + time.Since(c.born) }

// elapsed is the time between two readings of both clocks.
func elapsed(monotonic, wall time.Duration) time.Duration {
	if wall-monotonic >= minSleep {
		return wall
	}
	return monotonic
}
