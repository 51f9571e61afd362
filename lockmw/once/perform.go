package once

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockbeat/lockbeat/renewer"
)

// ending is how a function that has succeeded was put on record.
type ending struct {
	rec      record
	unstored error // why the result is not in the record
	written  error // why the record may not be written
	unbegun  error // why the function has not run
}

// perform runs the function, and puts on record that it has succeeded. err is that of an attempt
// that has failed.
func (c *call) perform(op context.Context, p *pen, rec record) (end ending, err error) {
	if recorder, ok := c.recorder.(Transactional); ok {
		return c.transact(op, recorder, p, rec)
	}
	if err := c.work(op); err != nil {
		return ending{}, err
	}
	end = c.succeeded(rec)
	end.written = p.mark(op, end.rec)
	return end, nil
}

// transact is perform in a transaction. An attempt whose transaction was rolled back has failed,
// whatever the function has returned. One whose transaction could not be begun is none.
func (c *call) transact(
	op context.Context, recorder Transactional, p *pen, rec record,
) (end ending, err error) {
	var last renewer.Record
	var failed error
	unbegun := insist(op, c.until, func() error {
		begun := false
		answer := recorder.Transact(op, func(ctx context.Context) (renewer.Record, error) {
			begun = true
			failed = c.work(ctx)
			if failed != nil {
				return renewer.Record{}, failed
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
		return ending{unbegun: fmt.Errorf("lockbeat: once %.80q: %w", c.name, unbegun)}, nil
	case failed != nil:
		return ending{}, failed
	case errors.Is(err, renewer.ErrLost) && last.Seq != 0:
		end.written, err = err, nil
	case passing(err) && last.Seq != 0:
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
		rec.result = string(data)
	}
	return ending{rec: rec, unstored: err}
}
