package renewer

import (
	"math/rand/v2"
	"time"
)

// jitter is a random duration in (0, d].
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d) + 1
}
