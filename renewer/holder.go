package renewer

import (
	"errors"
	"time"
)

// holderInfo is what was last seen of a lock that is not ours.
type holderInfo struct {
	known   bool
	holder  Holder
	heldFor time.Duration // by when it was seen
	since   instant       // when it got the lock; 0 if that is not known
	ttl     time.Duration
	err     error // the store could not be asked
}

// heldAt is how long the holder has had the lock at an instant, if it still has it then; 0 if that
// is not known.
func (i holderInfo) heldAt(now instant) time.Duration {
	if i.since == 0 {
		return 0
	}
	return max(0, now.Sub(i.since))
}

// errNoAnswer is what callers get to hear who run out of time before
// anybody knows who has the lock.
var errNoAnswer = errors.New("the store has not answered in time")
