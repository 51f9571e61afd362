package store

import "time"

// Newness is how new a call is. Of two calls with ranks the greater is newer. Of two with the same
// rank, or of which one has none, it is the one that was made later.
type Newness struct {
	// Rank is the caller's: a version, an ID, the time at which work was ordered. 0: none.
	Rank int64
	// Since is when the call was made, by the store's clock, in microseconds, if
	// the store has noted it before; else 0.
	Since int64
	// Age is how long before the question the call was made, by the caller's clock, if Since is 0:
	// at least 1 ns.
	Age time.Duration
}
