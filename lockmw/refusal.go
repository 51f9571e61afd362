package lockmw

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// Refusal is why a lock was not to be had. Adapters translate it.
type Refusal uint8

const (
	// RefusalNone is the zero value: there is no error.
	RefusalNone Refusal = iota
	// RefusalHeld means that somebody else has the lock: [renewer.ErrHeld].
	RefusalHeld
	// RefusalQueueFull means that too many wait for it already: [renewer.ErrQueueFull].
	RefusalQueueFull
	// RefusalSkipped means that somebody else has it, and [Skip] was asked for: [ErrSkipped].
	RefusalSkipped
	// RefusalUnavailable means that the store could not be asked:
	// [renewer.ErrUnavailable]. It never means "busy".
	RefusalUnavailable
	// RefusalShutdown means that the keeper is shut down: [renewer.ErrShutdown].
	RefusalShutdown
	// RefusalName means that the name is empty, too long, or one of too many ([MaxKeys]):
	// [renewer.ErrName].
	RefusalName
	// RefusalLost means that the lock of an outer call, in whose
	// context this one was made, is lost: [renewer.ErrLost].
	RefusalLost
	// RefusalCancelled means that the caller has gone: context.Canceled.
	RefusalCancelled
	// RefusalDeadline means that the caller's own deadline has passed: context.DeadlineExceeded.
	RefusalDeadline
	// RefusalMisuse means that the call can never work:
	// [renewer.ErrConfig], and whatever no lock's error is.
	RefusalMisuse
)

// RefusalOf sorts an error of [Enter], or of [Do] if the function did
// not run: a function may return the errors of locks of its own.
func RefusalOf(err error) Refusal {
	switch {
	case err == nil:
		return RefusalNone
	case errors.Is(err, renewer.ErrLost): // first: it is the cause of a cancellation then
		return RefusalLost
	case errors.Is(err, context.Canceled):
		return RefusalCancelled
	case errors.Is(err, context.DeadlineExceeded):
		return RefusalDeadline
	case errors.Is(err, ErrSkipped):
		return RefusalSkipped
	case errors.Is(err, renewer.ErrQueueFull):
		return RefusalQueueFull
	case errors.Is(err, renewer.ErrHeld):
		return RefusalHeld
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
	// DefaultRetryIn is about how long after a refusal it is worth asking again.
	DefaultRetryIn = time.Second
	// DefaultStoreRetryIn is the same when the store could not be asked.
	DefaultStoreRetryIn = 5 * time.Second
	// MaxRetryIn bounds the hint for a lock that has been held for long.
	MaxRetryIn = 30 * time.Second
)

// RetryIn is a hint to whoever was refused with err: when to ask again. It is a random duration
// between half of and one and a half times what it stands for, so that callers refused together
// do not come back together. That is base, or, if base is 0, [DefaultStoreRetryIn] if the store
// was down, and otherwise half of the time that the holder has had the lock already, from
// [DefaultRetryIn] to [MaxRetryIn]: who has been at it for a minute is hardly done in a second.
// (The time left to the lease would say less: it is renewed all the time.)
func RetryIn(err error, base time.Duration) time.Duration {
	if base <= 0 {
		base = DefaultRetryIn
		if errors.Is(err, renewer.ErrUnavailable) {
			base = DefaultStoreRetryIn
		} else if e, ok := errors.AsType[*renewer.Error](err); ok {
			base = max(base, min(e.HeldFor/2, MaxRetryIn))
		}
	}
	return base/2 + rand.N(base)
}
