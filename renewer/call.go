package renewer

import (
	"context"
	"errors"

	"github.com/lockbeat/lockbeat/renewer/internal/queue"
)

// call is one Acquire under way.
type call struct {
	k         *Keeper
	l         *Lease
	room      *opContext // for its context; nil once used
	request   request
	begun     instant
	until     instant // where MaxWait ends it; never without
	attempts  int
	late      int // attempts that were not answered within Config.RequestTimeout
	contended bool
	seen      queue.Seen // what the store last answered, while it was not "yours"
	behind    queue.Seen // whom this call was last seen behind, in this process or elsewhere
	place     uint64     // from which it asks; 0 for none. The store may have it in its line
	refused   instant    // when the last question was sent that was answered StatusTaken; 0 without
	reserved  int        // tokens for hand-offs
	freed     bool       // the name was free between the last two of these
	// when the last question was sent that was not answered and may still take effect; 0 without
	unsettled instant
	counted   bool // in Keeper.calls. Guarded by Keeper.mu
	over      bool // it has returned, rather than been left by a panic
}

// holder is who had the lock when last seen, for observers.
func (c *call) holder() queue.Seen {
	if c.seen.Holder != (Holder{}) {
		return c.seen
	}
	return c.behind
}

// countIn counts a call that Shutdown has to wait for. Under k.mu.
func (c *call) countIn() {
	c.counted = true
	c.k.books.CallIn()
}

// exit counts a call out, once.
func (c *call) exit() {
	c.k.mu.Lock()
	c.exitLocked()
	c.k.mu.Unlock()
}

func (c *call) exitLocked() {
	if c.counted {
		c.counted = false
		c.k.books.CallOut()
	}
}

// fail makes the caller's error.
func (c *call) fail(kind, cause error) error {
	e := &Error{
		Op: "acquire", Name: c.l.name, Kind: kind, Err: cause,
		Waited: c.k.clock.AtMost().Sub(c.begun), Attempts: c.attempts,
	}
	if !errors.Is(kind, ErrUnavailable) {
		e.Holder, e.HeldFor, e.RetryAfter = c.seen.Holder, c.seen.HeldFor, c.seen.TTL
	}
	return e
}

// cancelled makes the error for a caller whose context has ended.
func (c *call) cancelled(ctx context.Context) error {
	cause := context.Cause(ctx)
	if cause == ctx.Err() { //nolint:errorlint // whether it is the same value, not the same kind
		cause = nil
		if c.seen.Err != nil { // which may be what the caller waited for
			cause = storeError{c.seen.Err}
		}
	}
	return c.fail(ctx.Err(), cause)
}

// refuse makes the error for a caller who may not wait any longer, from what the store last said.
func (c *call) refuse() error {
	if err := c.seen.Err; err != nil {
		return c.fail(ErrUnavailable, storeError{err})
	}
	return c.fail(ErrHeld, nil)
}
