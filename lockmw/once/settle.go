package once

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// conclude reads what is on record. It is over if the work is
// decided, or if this program can't read the record.
func (c *call) conclude(seen renewer.Seen) (rec record, over bool, err error) {
	rec, err = decodeRecord(seen.Data)
	switch {
	case err != nil:
		return rec, true, c.ended(ErrRecord, rec, err)
	case rec.state == "":
		return rec, false, nil
	case rec.input != c.input:
		return rec, true, c.ended(ErrInput, rec, nil)
	}
	switch rec.state {
	case done:
		if err := c.decode([]byte(rec.result)); err != nil {
			c.forget()
			return rec, true, c.ended(ErrRecord, rec,
				fmt.Errorf("its result can't be decoded: %w", err))
		}
		return rec, true, nil
	case bare:
		c.forget()
		return rec, true, c.ended(ErrResult, rec, errors.New(rec.result))
	case exhausted:
		c.forget()
		return rec, true, c.ended(ErrAttemptsExhausted, rec, c.own)
	case givenUp:
		c.forget()
		return rec, true, c.ended(ErrGivenUp, rec, c.own)
	default:
		return rec, false, nil
	}
}

func (c *call) ended(kind error, rec record, cause error) error {
	return &Error{Kind: kind, Name: c.name, Attempts: rec.attempts, Last: rec.last, Err: cause}
}

// finish puts on record that the function has succeeded.
func (c *call) finish(op context.Context, p *pen, rec record) verdict {
	rec.state = done
	data, err := c.encode()
	switch {
	case err != nil:
		rec.state, rec.result = bare, "it can't be encoded"
		err = fmt.Errorf("%s: %w", rec.result, err)
	case len(data) > c.maxResult:
		rec.state, rec.result = bare, fmt.Sprintf("it has %d bytes, above MaxResult (%d)",
			len(data), c.maxResult)
		err = errors.New(rec.result)
	default:
		rec.result = string(data)
	}
	written := p.mark(op, rec)
	switch {
	case written == nil && err == nil:
		return verdict{over: true}
	case written == nil:
		return verdict{over: true, err: c.ended(ErrResult, rec, err)}
	case errors.Is(written, renewer.ErrLost), c.uncounted &&
		errors.Is(written, renewer.ErrNoRecord):
		// Another call has taken over. Its result will be everybody's, unless it has come to
		// nothing and erased the record.
		c.forget()
		c.own = written
		return verdict{soon: true, err: written}
	default:
		return verdict{over: true, err: c.ended(ErrNotRecorded, rec, written)}
	}
}

// pen writes the record for one holder of the lock.
type pen struct {
	c     *call
	fence int64
	seq   int64
}

// look reads the record and begins the holder's term.
func (p *pen) look(ctx context.Context) (seen renewer.Seen, err error) {
	err = insist(ctx, p.c.until, func() error {
		seen, err = p.c.keeper.Prepare(ctx,
			renewer.Term{Name: p.c.name, Fence: p.fence, TTL: p.c.keep})
		return err
	})
	if seen.Fence == p.fence {
		p.seq = max(p.seq, seen.Seq)
	}
	return seen, err
}

// write replaces the record, and tries again until a point in time if the store's answer is lost.
func (p *pen) write(ctx context.Context, rec record, until time.Time) error {
	p.seq++
	r := renewer.Record{
		Name: p.c.name, Fence: p.fence, Seq: p.seq, Data: rec.encode(),
		TTL: p.c.keep,
	}
	return insist(ctx, until, func() error { return p.c.keeper.Write(ctx, r) })
}

// erase removes the record, unless another holder's term has begun. A
// failure does no harm: the record lapses after Keep.
func (p *pen) erase(op context.Context) {
	p.seq++
	r := renewer.Record{Name: p.c.name, Fence: p.fence, Seq: p.seq, Erase: true}
	_ = p.c.keeper.Write(context.WithoutCancel(op), r)
}

// mark writes what has been decided. The caller's end does not matter any
// more, nor that of the lock: the store knows whether another call has
// taken over. It tries for as long as no other call could have done so yet.
func (p *pen) mark(op context.Context, rec record) error {
	ctx := context.WithoutCancel(op)
	until := time.Now().Add(p.c.keeper.Config().TTL)
	err := p.write(ctx, rec, until)
	if !errors.Is(err, renewer.ErrNoRecord) || !lockmw.Held(op, p.c.name) {
		return err
	}
	// The attempt took longer than Keep. But the lock is ours, and has been all the time.
	if _, err := p.look(ctx); err != nil {
		return err
	}
	return p.write(ctx, rec, until)
}

const (
	firstBackoff = 25 * time.Millisecond
	lastBackoff  = 500 * time.Millisecond
)

// insist asks again for as long as the store does not answer, until a point in time.
func insist(ctx context.Context, until time.Time, ask func() error) error {
	for pause := firstBackoff; ; pause = min(2*pause, lastBackoff) {
		err := ask()
		if err == nil || !passing(err) || time.Until(until) <= pause {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// passing reports whether the store may answer if it is asked again.
func passing(err error) bool {
	return errors.Is(err, renewer.ErrUnavailable) && !errors.Is(err, renewer.ErrRejected)
}
