package timing

import (
	"math/rand/v2"
	"time"
)

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
