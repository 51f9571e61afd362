package history

import "math"

// Never is later than everything.
const Never = math.MaxInt64

// Lease is one grant and what became of it.
type Lease struct {
	Process string
	Name    string
	Fence   int64
	Asked   int64 // Acquire was called
	Begin   int64 // Acquire returned
	End     int64 // belief was over: see the package's documentation
	Until   int64 // the deadline that was published
	Freeing int64 // Release was called; Never if it was not
	Freed   int64 // Release returned; Never if it did not
	Over    int64 // the context was seen to have ended; Never if it was not before Release
	Valid   int64 // Valid was last seen true; 0 if it was not
	Beyond  int64 // the most by which the lease's own word exceeded the deadline of the time
	Err     string
	Lost    string // why the context ended
	Handed  bool   // inside its process, without a grant of the store of its own
	Killed  bool   // with its process
	by      *Process
	grant   *grant
	Late    int64 // how long after Until belief went on though nothing had paused the process
}

// clean reports whether the lease ended by a release of which the process knows that it succeeded.
func (l *Lease) clean() bool { return l.Over == Never && l.Freed != Never && l.Err == "" }
