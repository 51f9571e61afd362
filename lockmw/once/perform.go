package once

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// ending is how a function that has succeeded was put on record.
type ending struct {
	rec      record
	unstored error // why the result is not in the record
	written  error // why the record may not be written
	unbegun  error // why the function has not run
}

// perform runs the function, and puts on record that it has succeeded. err is
// that of an attempt that has failed.
func (c *call) perform(op context.Context, p *pen, rec record) (end ending, err error) {
	if recorder, ok := c.recorder.(Transactional); ok {
		return c.transact(op, recorder, p, rec)
	}
	if err := c.work(op); err != nil {
		return ending{}, err
	}
	end = c.succeeded(rec)
	end.written = p.mark(op, end.rec)
	if errors.Is(end.written, renewer.ErrRejected) && end.rec.state == done {
		// Without its result the store may take it, so that the work is not
		// done again.
		end.unstored = fmt.Errorf("the store refuses it: %w", end.written)
		end.rec.state, end.rec.result, end.rec.details = bare, "the store refuses it", details{}
		end.written = p.mark(op, end.rec)
	}
	return end, nil
}

// transact is perform in a transaction. An attempt whose transaction was rolled
// back has failed, whatever the function has returned. One whose transaction
// could not be begun is none, nor is one that was in conflict with others.
// After a conflict the function is run again: nothing was done, and those who
// wait for the lock would only wait for another one.
func (c *call) transact(
	op context.Context, recorder Transactional, p *pen, rec record,
) (ending, error) {
	var until time.Time
	pause := firstBackoff
	for conflicts := 1; ; conflicts++ {
		end, err := c.transactOnce(op, recorder, p, rec)
		if end.unbegun != nil || !isConflict(err) {
			return end, err
		}
		c.forget()
		if until.IsZero() {
			until = time.Now().Add(c.Wait)
		}
		ended := c.noRetry || conflicts == maxConflicts || time.Until(until) <= pause ||
			sleep(op, pause/2+rand.N(pause)) != nil
		if ended {
			return ending{unbegun: c.inConflict(op, rec, conflicts, err)}, nil
		}
		pause = min(2*pause, lastBackoff)
	}
}

// inConflict is the error of a call whose transactions were in conflict each
// time.
func (c *call) inConflict(op context.Context, rec record, times int, last error) error {
	if op.Err() != nil {
		last = fmt.Errorf("%w: %w", context.Cause(op), last)
	}
	rec.attempts--
	rec.last = Current(op).Previous
	return c.ended(ErrConflict, rec, fmt.Errorf("times: %d, the last: %w", times, last))
}

// isConflict reports whether a recorder says that a transaction was in conflict
// with another one.
func isConflict(err error) bool {
	return within(err, func(err error) bool {
		return err == ErrConflict //nolint:errorlint // within unwraps
	})
}

// transactOnce runs the function in one transaction.
func (c *call) transactOnce(
	op context.Context, recorder Transactional, p *pen, rec record,
) (end ending, err error) {
	var last store.Record
	unbegun := insist(op, c.until, func(context.Context) error {
		begun := false
		answer := recorder.Transact(op, func(ctx context.Context) (store.Record, error) {
			begun = true
			if err := c.work(ctx); err != nil {
				return store.Record{}, err
			}
			end = c.succeeded(rec)
			last = p.next(end.rec)
			return last, nil
		})
		if begun {
			err, answer = answer, nil
		}
		return answer
	})
	switch {
	case unbegun != nil:
		return ending{unbegun: unbegunError{unbegun, c.name}}, nil
	case last.Seq == 0: // the function has failed
	case errors.Is(err, renewer.ErrLost):
		end.written, err = err, nil
	case passing(err):
		end.written, err = p.confirm(op, last, err)
	}
	return end, err
}

// succeeded is the record of a function that has succeeded.
func (c *call) succeeded(rec record) ending {
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
		rec.result, rec.details.typ = string(data), c.typ
	}
	return ending{rec: rec, unstored: err}
}
