package httpmw

import (
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/once"
)

// Defaults of [Idempotent].
const (
	// DefaultKeepAnswer is how long an answer is replayed: a day.
	DefaultKeepAnswer = once.DefaultKeep
	// DefaultMaxAnswer is how many bytes an answer may have, headers and trailers included, to be
	// stored: 64 KiB.
	DefaultMaxAnswer = once.DefaultMaxResult
	// DefaultFinishWithin is how long a handler may go on when its client has gone: a minute.
	DefaultFinishWithin = time.Minute
)

// KeepAnswer is how long an answer is kept, to be replayed: after d the key
// is as new. Longer than clients go on trying, and than renewer.Config.TTL;
// [Idempotent] panics otherwise. Default [DefaultKeepAnswer], 24 h.
func KeepAnswer(d time.Duration) IdempotentOption {
	return idempotentOption(func(s *settings) { s.keepAnswer = d })
}

// MaxAnswer bounds an answer to n bytes in its stored form, which is JSON: a body takes a third
// more. One that is larger reaches the client that it is for, as the handler writes it, and can't
// be replayed: a request that is sent again gets a 409, and the handler does not run again,
// unless the lock was lost while it ran. It bounds what a request keeps in memory, too. It panics
// if n is below 1. Default [DefaultMaxAnswer], 64 KiB.
func MaxAnswer(n int) IdempotentOption {
	if n < 1 {
		panic(fmt.Sprintf("lockbeat: httpmw.MaxAnswer(%d) can't be meant: give a number of "+
			"bytes, such as httpmw.DefaultMaxAnswer", n))
	}
	return idempotentOption(func(s *settings) { s.maxAnswer = n })
}

// KeepStatus says which of the handler's answers are final, by their status: keep reports whether
// one is stored and replayed. With others the next request with the key runs the handler again,
// and no record stays in the store. Refusals of this package, and errors with Retry-After, are
// never stored. It is for handlers whose errors have effects, such as a declined payment that is
// on record: they keep all, by func(int) bool { return true }. It may be called concurrently. It
// panics if keep is nil. Default: those below 400, since an error says that nothing has been
// done.
func KeepStatus(keep func(status int) bool) IdempotentOption {
	if keep == nil {
		panic("lockbeat: httpmw.KeepStatus needs a function that reports whether answers with a " +
			"status are stored")
	}
	return idempotentOption(func(s *settings) { s.keepStatus = keep })
}

// Scope tells callers of one name apart: keys of the same caller in another scope are others. Give
// each service that shares a Redis a scope of its own, such as its name, and each of two handlers
// whose callers have the same IDs and are not the same. A store prefix of its own for each service
// (redisstore.Prefix) does it as well, and keeps their locks apart too. Changing it makes all keys
// new. Default "".
func Scope(scope string) IdempotentOption {
	return idempotentOption(func(s *settings) { s.scope = scope })
}

// WaitForAnswer has a request wait for at most d for one with the same key
// that is being carried out, and then replay its answer, or take over if it
// came to nothing. Default: no waiting, 409. It panics if d is not positive.
func WaitForAnswer(d time.Duration) IdempotentOption {
	if d <= 0 {
		panic(fmt.Sprintf("lockbeat: httpmw.WaitForAnswer(%v) can't be meant: give a positive "+
			"duration, or leave it out so as not to wait", d))
	}
	return idempotentOption(func(s *settings) { s.answerWait = d })
}

// FinishWithin is how long a handler may go on when its client has gone, or other middleware's
// deadline has passed: then its context ends too. Take more for handlers that need longer than that
// to come to an end, 0 for ones that had better be cut off, since they undo what they have begun.
// It panics if d is negative. Default [DefaultFinishWithin], 1 min.
func FinishWithin(d time.Duration) IdempotentOption {
	if d < 0 {
		panic(fmt.Sprintf("lockbeat: httpmw.FinishWithin(%v) can't be meant: give a duration, or "+
			"0 so that a handler ends with its client", d))
	}
	return idempotentOption(func(s *settings) { s.finishWithin = d })
}

// KeyOptional lets requests without an Idempotency-Key through, as if
// there were no guard. Default: 400.
func KeyOptional() IdempotentOption {
	return idempotentOption(func(s *settings) { s.keyOptional = true })
}
