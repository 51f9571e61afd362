package simtest_test

import "time"

// clock is the server's: it runs faster or slower than that of the processes,
// by a constant rate.
type clock struct {
	offset time.Duration
	drift  int64 // in millionths
}

// at is what it shows at an instant of the processes' time.
func (c clock) at(now time.Duration) time.Duration {
	return c.offset + now + now*time.Duration(c.drift)/1_000_000
}

// when is the first instant at which it shows a time.
func (c clock) when(shown time.Duration) time.Duration {
	now := time.Duration(float64(shown-c.offset) / (1 + float64(c.drift)/1e6))
	for c.at(now) >= shown {
		now--
	}
	for c.at(now) < shown {
		now++
	}
	return now
}

// mostDrift is how much faster than ours a clock may run, in millionths, if
// either differs from real time by rho: theirs is fast and ours is slow.
func mostDrift(rho float64) int64 { return int64(((1+rho)/(1-rho) - 1) * 1e6) }

// leastDrift is the same for a clock that runs slower, and negative.
func leastDrift(rho float64) int64 { return -int64((1 - (1-rho)/(1+rho)) * 1e6) }
