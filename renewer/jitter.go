package renewer

import (
	"math/rand/v2"
	"time"
)

const (
	// Pauses after the store could not be asked: doubled each time, with jitter.
	// The longest is short enough to find a server soon after it is back.
	firstBackoff = 25 * time.Millisecond
	lastBackoff  = 500 * time.Millisecond
)

// jitter is a random duration in (0, d].
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d) + 1
}
