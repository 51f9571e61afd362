package once

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// maxError bounds an error's text in a record, in bytes: see TellErrors.
const maxError = 300

// failed puts on record that an attempt has failed, and when the next one may
// begin: what it stands on may be down, and others who wait would use up the
// attempts that are left within moments. It returns how long this call pauses.
// An attempt that was cut, since its lock was lost or its caller has left, is
// no failure of the work's: another may begin at once. That the record can't be
// written does no harm: then it is as after a death.
func (c *call) failed(op context.Context, p *pen, rec record, err error) time.Duration {
	pause := c.pause(rec.attempts)
	switch {
	case c.uncounted:
		p.erase(op)
	case op.Err() == nil:
		rec.result, rec.details.pause = c.told(err), pause
		r := p.next(rec)
		c.paused.Fence, c.paused.Seq = r.Fence, r.Seq
		_ = p.put(op, r, time.Time{})
	}
	return pause
}

// pause is how long to wait after the n-th attempt. It is jittered as by
// ExponentialBackOff of Google's HTTP client for Java (randomized_interval).
// Source: https://googleapis.dev/java/google-http-client/latest/
func (c *call) pause(n int) time.Duration {
	most := min(c.lastRetry, max(c.keep/3, 1))
	d := min(c.firstRetry, most)
	for ; n > 1 && d < most; n-- {
		d = min(2*d, most)
	}
	return (d/2 + rand.N(d)).Round(time.Millisecond) //nolint:gosec // jitter, not secrets
}

// early is the verdict on a record after which no attempt may begin yet, if it
// is one. A call that has failed itself has paused by its own clock.
func (c *call) early(seen store.Seen, rec record) (verdict, bool) {
	left := rec.details.rest(seen.TTL)
	if rec.state != begun || rec.attempts >= c.attempts || left == 0 ||
		seen.Fence == c.paused.Fence && seen.Seq == c.paused.Seq {
		return verdict{}, false
	}
	err := &Error{
		Kind: ErrNotYet, Name: c.name, Attempts: rec.attempts, Last: rec.last, RetryAfter: left,
		Err: c.cause(rec),
	}
	return verdict{err: err, pause: left}, true
}

// told is what the record says of an error: nothing, unless TellErrors allows
// it.
func (c *call) told(err error) string {
	if err == nil || !c.tellErrors {
		return ""
	}
	return line(err.Error(), maxError)
}

// cause is why the last attempt on record has failed, as far as this call
// knows: the error of its own attempt, which says so if another one came later,
// or what another process has told.
func (c *call) cause(rec record) error {
	switch {
	case c.own != nil && c.ownIs == rec.attempts:
		return c.own
	case c.own != nil:
		return fmt.Errorf("this call's own attempt, number %d: %w", c.ownIs, c.own)
	case rec.result != "" && rec.state != done && rec.state != bare:
		return fmt.Errorf("%s", rec.result)
	default:
		return nil
	}
}
