package store

import "time"

// Newness is how new a call is. Of two calls with ranks the greater is newer;
// of others, the one that was made later.
type Newness struct {
	// Rank is the caller's: a version, an ID. 0: none.
	Rank int64
	// Since is when the call was made, by the store's clock, in microseconds,
	// if the store has noted it before; else 0, and Age is how long ago by the
	// caller's clock: at least 1 ns.
	Since int64
	Age   time.Duration
}
