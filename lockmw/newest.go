package lockmw

import (
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw/internal/naming"
	"github.com/lockbeat/lockbeat/renewer"
)

// Replace has the newest call win: it ends the operation that has the lock, and takes the place of
// a call with Replace or [Latest] that waits for it, in any process. It is for work of which the
// last request alone counts: a search as one types, a preview, a build of the latest commit.
//
// The operation's context ends with a [renewer.LostError] that is [renewer.ErrReplaced], whatever
// options it was called with, and the call has the lock when that operation has returned, or its
// TTL has ended; never while both may run. So an operation that does not heed its context delays
// the newest call, which waits as [Wait] says, 10 s by default. A call that was waiting is
// [renewer.ErrHeld] and [renewer.ErrReplaced]. Which call is the newest is decided by when it asks.
//
// It is for one lock: with [Keys], or with a limit ([AtMost], [Limit]), the call is refused with
// [renewer.ErrConfig] before anything is asked; so it is where the store does not know which call
// is the newest, as package quorum's does not. A call inside of the lock runs in it, as ever.
func Replace() Option { return only(renewer.Replace()) }

// Latest waits, as [Wait] says, as the only call: it takes the place of a call with Latest or
// [Replace] that waits for the lock already, in any process, whose error is [renewer.ErrHeld] and
// [renewer.ErrReplaced] then. So one call runs, to its end, and one waits, the newest. It is for
// work that is to be done once more after the last change, however many there were. What Replace is
// for and not for, and what is refused, is the same.
func Latest() Option { return only(renewer.Latest()) }

func only(newest renewer.Option) Option {
	return func(s settings) settings {
		s.contention, s.newest = wait, newest
		return s
	}
}

// checkNewest refuses [Replace] and [Latest] for what is not one lock, before anything is asked.
func (s settings) checkNewest(name string) error {
	if s.newest == nil {
		return nil
	}
	_, _, limit := naming.CutLimit(name)
	switch {
	case naming.Split(name) != nil:
		return fmt.Errorf("%w: Replace, Latest: the call is for several names (Keys): give it one",
			renewer.ErrConfig)
	case limit:
		return fmt.Errorf("%w: Replace, Latest: they are for locks, and the name is that of a "+
			"limit (AtMost, Limit)", renewer.ErrConfig)
	default:
		return nil
	}
}
