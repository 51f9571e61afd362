package adapter

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// Refusal is why a call did not get its lock; 0 if there is no error. Adapters
// translate it.
type Refusal uint8

const (
	// RefusalBusy means that another caller has the lock: [renewer.ErrBusy].
	RefusalBusy Refusal = iota + 1
	// RefusalReplaced means that a newer call has taken the place of this one
	// while it waited, or that of an outer call, in whose context it was made:
	// [renewer.ErrReplaced], see [lockmw.Replace]. The latter is
	// [renewer.ErrLost] too.
	RefusalReplaced
	// RefusalQueueFull means that too many wait for it already:
	// [renewer.ErrQueueFull].
	RefusalQueueFull
	// RefusalSkipped means that another caller has it, and [lockmw.Skip] was
	// asked for: [lockmw.ErrSkipped].
	RefusalSkipped
	// RefusalUnavailable means that the store could not be asked:
	// [renewer.ErrUnavailable]. It never means "busy".
	RefusalUnavailable
	// RefusalShutdown means that the keeper is shut down:
	// [renewer.ErrShutdown].
	RefusalShutdown
	// RefusalName means that the name is empty, too long, or one of too many
	// (64): [renewer.ErrName].
	RefusalName
	// RefusalLost means that the lock of an outer call, in whose context this
	// one was made, is lost: [renewer.ErrLost].
	RefusalLost
	// RefusalCancelled means that the caller has gone: context.Canceled.
	RefusalCancelled
	// RefusalDeadline means that the caller's own deadline has passed:
	// context.DeadlineExceeded.
	RefusalDeadline
	// RefusalMisuse means that the call can never work: [renewer.ErrConfig],
	// and every error that does not come from a lock.
	RefusalMisuse
)

// RefusalOf sorts an error of [Enter], or of [Run] if the function did not run:
// the error of a function that ran may come from a lock that it uses itself.
func RefusalOf(err error) Refusal {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, renewer.ErrReplaced):
		return RefusalReplaced
	case errors.Is(err, renewer.ErrLost): // first: it is the cause of a cancellation then
		return RefusalLost
	case errors.Is(err, context.Canceled):
		return RefusalCancelled
	case errors.Is(err, context.DeadlineExceeded):
		return RefusalDeadline
	case errors.Is(err, lockmw.ErrSkipped):
		return RefusalSkipped
	case errors.Is(err, renewer.ErrQueueFull):
		return RefusalQueueFull
	case errors.Is(err, renewer.ErrBusy):
		return RefusalBusy
	case errors.Is(err, renewer.ErrUnavailable):
		return RefusalUnavailable
	case errors.Is(err, renewer.ErrShutdown):
		return RefusalShutdown
	case errors.Is(err, renewer.ErrName):
		return RefusalName
	default:
		return RefusalMisuse
	}
}

const (
	defaultRetryIn = time.Second
	storeRetryIn   = 5 * time.Second  // if the store could not be asked, or a limit is closed
	maxRetryIn     = 30 * time.Second // for a lock that has been held for long
)

// RetryIn advises a caller that was refused with err when to ask again: after a
// random duration between half of base and one and a half times base, so that
// callers refused together do not come back together.
//
// If base is 0 or less, it is 5 s if the store could not be asked or the limit
// is closed ([renewer.ErrLimitClosed]), and otherwise half of the time for
// which the holder has had the lock, but at least 1 s and at most 30 s: an
// operation that has taken a minute is hardly done in a second. (The time left
// to the lease would say less, since heartbeats renew it.)
func RetryIn(err error, base time.Duration) time.Duration {
	if base <= 0 {
		base = defaultRetryIn
		if errors.Is(err, renewer.ErrUnavailable) || errors.Is(err, renewer.ErrLimitClosed) {
			base = storeRetryIn
		} else if e, ok := errors.AsType[*renewer.Error](err); ok {
			base = max(base, min(e.HeldFor/2, maxRetryIn))
		}
	}
	base = min(max(base, 2), math.MaxInt64/2) // the sum is neither 0 nor too much
	return base/2 + rand.N(base)
}
