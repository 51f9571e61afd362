package store

import (
	"errors"
	"fmt"
	"time"
)

// What a Store's errors are, as errors.Is tells. Package renewer has them under
// the same names.
var (
	// ErrUnavailable means that the store could not be asked: it is not known
	// who has the lock.
	ErrUnavailable = errors.New("lockbeat: lock store unavailable")
	// ErrRejected marks an answer that the same request gets again until the
	// server is changed: missing rights, a key of another type, a client that
	// was closed. The engine does not retry an acquire on it.
	ErrRejected = errors.New("lockbeat: refused by the lock store")
	// ErrOverloaded marks the answer of a server that is up and refuses for
	// now: it is out of memory, or busy. It is no evidence of an outage.
	ErrOverloaded = errors.New("lockbeat: the lock store is overloaded")
	// ErrNotSent means that an acquire has not left the process: there is
	// nothing to free. A Store need not know.
	ErrNotSent = errors.New("not sent")
	// ErrNoRecord means that a record was not written, since its term has
	// lapsed. Recorders of single records answer so, where a [Recorder] answers
	// [StatusGone].
	ErrNoRecord = errors.New("lockbeat: the record has lapsed")
	// ErrConfig means that a configuration, an option or a duration is
	// unusable; the text names each.
	ErrConfig = errors.New("lockbeat: invalid configuration")
)

// Millis converts a duration to whole milliseconds, rounding down, and refuses
// less than one with [ErrConfig].
func Millis(d time.Duration) (int64, error) {
	if d < time.Millisecond { // 0 would mean "none" to some servers, and "gone at once" to others
		return 0, fmt.Errorf("%w: a duration of %v is below the shortest, 1ms", ErrConfig, d)
	}
	return d.Milliseconds(), nil
}
