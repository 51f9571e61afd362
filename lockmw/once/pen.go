package once

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// pen writes the record for one holder of the lock.
type pen struct {
	c     *call
	fence int64
	seq   int64
}

// look reads the record and begins the holder's term. It tries again until a
// point in time.
func (p *pen) look(ctx context.Context, until time.Time) (store.Seen, error) {
	return p.prepare(ctx, store.Term{Name: p.c.name, TTL: p.c.keep}, until)
}

// prepare is look with a first record.
func (p *pen) prepare(
	ctx context.Context, term store.Term, until time.Time,
) (seen store.Seen, err error) {
	term.Fence = p.fence
	err = insist(ctx, until, func(ctx context.Context) error {
		seen, err = p.c.recorder.Prepare(ctx, term)
		return err
	})
	if seen.Fence == p.fence {
		p.seq = max(p.seq, seen.Seq)
	}
	return seen, err
}

// next is the holder's next record.
func (p *pen) next(rec record) store.Record {
	p.seq++
	rec.details.kept = p.c.keep
	return store.Record{
		Name: p.c.name, Fence: p.fence, Seq: p.seq, Data: rec.encode(), TTL: p.c.keep,
	}
}

// write replaces the record, and tries again until a point in time if the
// store's answer is lost.
func (p *pen) write(ctx context.Context, rec record, until time.Time) error {
	return p.put(ctx, p.next(rec), until)
}

func (p *pen) put(ctx context.Context, r store.Record, until time.Time) error {
	return insist(ctx, until, func(ctx context.Context) error {
		return p.c.recorder.Write(ctx, r)
	})
}

// erase removes the record, unless another holder's term has begun. A
// failure does no harm: the record lapses after Keep.
func (p *pen) erase(op context.Context) {
	r := p.next(record{})
	r.Erase = true
	_ = p.put(op, r, time.Time{})
}

// takeBack has the record be as it was before rec, an attempt that has not
// begun. It tries again while the caller waits, as long as no other call could
// have taken over. If it fails, the attempt stays counted.
func (p *pen) takeBack(ctx, op context.Context, rec record) {
	rec.attempts--
	rec.last = Current(op).Previous
	r := p.next(rec)
	r.Erase = rec.attempts == 0
	_ = p.put(ctx, r, time.Now().Add(p.c.keeper.Config().TTL))
}

// mark writes what has been decided. The caller's end does not matter any
// more, nor that of the lock: the store knows whether another call has
// taken over. It tries for as long as no other call could have done so yet.
func (p *pen) mark(op context.Context, rec record) error {
	ctx := context.WithoutCancel(op)
	until := time.Now().Add(p.c.keeper.Config().TTL)
	err := p.write(ctx, rec, until)
	if !errors.Is(err, store.ErrNoRecord) || !lockmw.Held(op, p.c.name) {
		return err
	}
	// The attempt took longer than Keep. But the lock is ours, and has been all
	// the time.
	if _, err := p.look(ctx, until); err != nil {
		return err
	}
	return p.write(ctx, rec, until)
}

// confirm finds out whether a transaction was committed that writes r, after
// its answer was lost: cause. Nothing is written if failed is not nil; it is
// not known if unknown is not nil.
func (p *pen) confirm(op context.Context, r store.Record, cause error) (unknown, failed error) {
	until := time.Now().Add(p.c.keeper.Config().TTL)
	seen, err := p.look(context.WithoutCancel(op), until)
	switch {
	case err != nil:
		return err, nil
	case seen.Fence != r.Fence || seen.Seq != r.Seq:
		return nil, cause
	default:
		return nil, nil
	}
}

const (
	firstBackoff = 25 * time.Millisecond
	lastBackoff  = 500 * time.Millisecond
)

// insist asks again for as long as the store does not answer, until a point in
// time or until ctx ends. That does not cut a question short that is under way:
// its answer says what is on record, so that a caller who leaves can take it
// back.
func insist(ctx context.Context, until time.Time, ask func(context.Context) error) error {
	whole := context.WithoutCancel(ctx)
	for pause := firstBackoff; ; pause = min(2*pause, lastBackoff) {
		err := ask(whole)
		if err == nil || !passing(err) || time.Until(until) <= pause || sleep(ctx, pause) != nil {
			return err
		}
	}
}

// sleep returns nil after d, or the context's error if that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// passing reports whether the store may answer if it is asked again.
func passing(err error) bool {
	return errors.Is(err, renewer.ErrUnavailable) && !errors.Is(err, renewer.ErrRejected)
}

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
