package renewer

import (
	"context"
	"errors"
	"time"
)

// fail makes the caller's error.
func (c *call) fail(kind, cause error) error {
	e := &Error{
		Op: "acquire", Name: c.l.name, Kind: kind, Err: cause,
		Waited: c.k.clock.AtMost().Sub(c.begun), Attempts: c.attempts,
	}
	if !errors.Is(kind, ErrUnavailable) {
		e.Holder, e.HeldFor, e.RetryAfter = c.seen.holder, c.seen.heldFor, c.seen.ttl
	}
	return e
}

// cancelled makes the error for a caller whose context has ended.
func (c *call) cancelled(ctx context.Context) error {
	cause := context.Cause(ctx)
	if cause == ctx.Err() { //nolint:errorlint // whether it is the same value, not the same kind
		cause = nil
		if c.seen.err != nil { // which may be what the caller waited for
			cause = storeError{c.seen.err}
		}
	}
	return c.fail(ctx.Err(), cause)
}

// refuse makes the error for a caller who may not wait any longer, from what the store last said.
func (c *call) refuse() error {
	if c.seen.err != nil {
		return c.fail(ErrUnavailable, storeError{c.seen.err})
	}
	return c.fail(ErrHeld, nil)
}

// holderInfo is what was last seen of a lock that is not ours.
type holderInfo struct {
	known   bool
	holder  Holder
	heldFor time.Duration
	ttl     time.Duration
	err     error // the store could not be asked
}

// errNoAnswer is what callers get to hear who run out of time before
// anybody knows who has the lock.
var errNoAnswer = errors.New("the store has not answered in time")
