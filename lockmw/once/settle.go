package once

import (
	"errors"
	"fmt"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// conclude reads what is on record. It is over if the work is
// decided, or if this program can't read the record.
func (c *call) conclude(seen store.Seen) (rec record, over bool, err error) {
	rec, err = decodeRecord(seen.Data)
	switch {
	case err != nil:
		return rec, true, c.ended(ErrRecord, rec, err)
	case rec.state == "":
		return rec, false, nil
	case rec.input != c.input:
		return rec, true, c.ended(ErrInput, rec, nil)
	}
	kind, cause := ErrRecord, c.cause(rec)
	switch rec.state {
	case done:
		if otherType(rec.details.typ, c.typ) {
			cause = fmt.Errorf("its result is of type %s, and this call's of type %s",
				rec.details.typ, c.typ)
			break
		}
		if err = c.decode([]byte(rec.result)); err == nil {
			return rec, true, nil
		}
		cause = fmt.Errorf("its result can't be decoded: %w", err)
	case bare:
		kind, cause = ErrResult, errors.New(rec.result)
	case exhausted:
		kind = ErrAttemptsExhausted
	case givenUp:
		kind = ErrGivenUp
	default:
		return rec, false, nil
	}
	c.forget()
	return rec, true, c.ended(kind, rec, cause)
}

func (c *call) ended(kind error, rec record, cause error) error {
	return &Error{Kind: kind, Name: c.name, Attempts: rec.attempts, Last: rec.last, Err: cause}
}

// finish is the verdict on an attempt that has succeeded.
func (c *call) finish(end ending) verdict {
	switch {
	case end.written == nil && end.unstored == nil:
		return verdict{over: true}
	case end.written == nil:
		return verdict{over: true, err: c.ended(ErrResult, end.rec, end.unstored)}
	case errors.Is(end.written, renewer.ErrLost), c.uncounted &&
		errors.Is(end.written, store.ErrNoRecord):
		// Another call has taken over. Its result will be everybody's, unless
		// it has come to nothing and erased the record.
		c.forget()
		c.own = end.written
		return verdict{soon: true, err: end.written}
	default:
		return verdict{over: true, err: c.ended(ErrNotRecorded, end.rec, end.written)}
	}
}
