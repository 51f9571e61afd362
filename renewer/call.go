package renewer

import (
	"context"
	"errors"

	"github.com/lockbeat/lockbeat/renewer/internal/desk"
	"github.com/lockbeat/lockbeat/renewer/internal/lease"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// call is one Acquire under way.
type call struct {
	k       *Keeper
	l       *Lease
	room    *lease.Context // for its context; nil once used
	request Request
	begun   instant
	until   instant    // where MaxWait ends it; never without
	place   desk.Place // from which it asks. The store may have it in its line
	sight
	tries
	share
	newest *newestCall // nil unless none but the newest is to wait
	inside bool        // it is counted in at the desk
	over   bool        // it has returned, rather than been left by a panic
}

// sight is what a call knows of who has the lock.
type sight struct {
	seen      desk.Seen // what the store last answered, while it was not "yours"
	behind    desk.Seen // whom this call was last seen behind, in this process or elsewhere
	contended bool
	own       bool    // an operation of this process has had the lock since before the call
	refused   instant // when the last question was sent that was answered StatusTaken; 0 without
	freed     bool    // the name was free between the last two refusals
}

// holder is who had the lock when last seen, for observers.
func (s *sight) holder() desk.Seen {
	if s.seen.Holder != (store.Holder{}) {
		return s.seen
	}
	return s.behind
}

// holderOf is the holder that a store has told of in its answer to a question
// sent at an instant.
func holderOf(g *store.Grant, sent instant) desk.Seen {
	info := desk.Seen{
		Known: true, Holder: g.Holder, HeldFor: g.HeldFor, TTL: g.TTL, Held: g.Held,
		Foreign: g.Foreign,
	}
	if g.HeldFor != 0 {
		info.Since = sent.Add(-g.HeldFor)
	}
	return info
}

// tries is what has become of a call's questions.
type tries struct {
	attempts int
	late     int // attempts that were not answered within Config.RequestTimeout
	// when the last question was sent that was not answered and may still take
	// effect; 0 without
	unsettled instant
	reserved  int // tokens for hand-offs
	callers   int // who wait behind it in this process, when it last asked
}

// share is what a call for a slot of a limit has to do with others for one.
type share struct {
	limit  int     // the latest; 0 for a lock
	aside  bool    // it asks while nobody of this process waits
	others []other // for whom the question under way asks, too
	given  bool    // it has a slot, by a question of the one at the front
}

// fail makes the caller's error.
func (c *call) fail(kind, cause error) *Error {
	e := &Error{
		Op: "acquire", Name: c.l.Name(), Kind: kind, Err: cause,
		Waited: c.k.clock.AtMost().Sub(c.begun), Attempts: c.attempts,
	}
	if !errors.Is(kind, ErrUnavailable) {
		e.Holder, e.HeldFor, e.RetryAfter = c.seen.Holder, c.seen.HeldFor, c.seen.TTL
		e.Limit, e.Held = c.limit, c.seen.Held
		e.own = c.own && e.Holder != (store.Holder{})
		if cause == nil && c.seen.Foreign {
			e.Err = errForeign
		}
	}
	return e
}

// errForeign is why a lock that has no holder is held: it may be so for ever.
var errForeign = errors.New("another program has written its key; delete that, and let that " +
	"program take another prefix")

// cancelled makes the error for a caller whose context has ended.
func (c *call) cancelled(ctx context.Context) *Error {
	cause := context.Cause(ctx)
	if cause == ctx.Err() { //nolint:errorlint // whether it is the same value, not the same kind
		cause = nil
		if c.seen.Err != nil { // which may be what the caller waited for
			cause = storeError{c.seen.Err}
		}
	}
	e := c.fail(ctx.Err(), cause)
	e.held = errors.Is(ctx.Err(), context.DeadlineExceeded) && c.seen.Known && c.seen.Err == nil
	return e
}

// refuse makes the error for a caller who may not wait any longer, from what
// the store last said. If it has said nothing: [ErrBusy] for one who stood
// behind another caller of this process, unless that one only waits for a store
// in trouble; else [ErrUnavailable].
func (c *call) refuse() error {
	if !c.seen.Known && (!c.contended || !c.behind.Known && c.k.outages.Troubled()) {
		c.seen = unavailable(errNoAnswer)
	}
	if err := c.seen.Err; err != nil {
		return c.fail(ErrUnavailable, storeError{err})
	}
	return c.fail(ErrBusy, nil)
}
