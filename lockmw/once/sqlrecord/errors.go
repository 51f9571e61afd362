package sqlrecord

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// question is one to the database. Its op says it all if it is not about one name.
type question struct {
	op, name string
	fence    int64
	timeout  time.Duration
}

func (r *Recorder) question(op, name string, fence int64) question {
	return question{op: op, name: name, fence: fence, timeout: r.timeout}
}

// told is a kind of error in words that name the database, which is not the locks' store.
type told struct {
	error

	text string
}

func (e told) Error() string { return e.text }

func (e told) Unwrap() error { return e.error }

var (
	errUnavailable = told{renewer.ErrUnavailable, "the records' database is unavailable"}
	errRejected    = told{renewer.ErrRejected, "it refuses"}
)

// failed is the caller's error of an answer; nil stays nil. limited is ctx
// with the recorder's own limit.
func (q question) failed(ctx, limited context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return q.fail(ctx.Err(), databaseError{err})
	case limited.Err() != nil:
		return q.unavailable(lateError{err, q.timeout})
	case errors.Is(err, sql.ErrTxDone):
		return q.fail(renewer.ErrConfig, fmt.Errorf(
			"the function has ended the transaction itself: leave that to the recorder: %w", err))
	case permanent(err):
		return q.unavailable(fmt.Errorf("%w: %w; is the table there, by Recorder.Schema, and may "+
			"this user write to it? Is the database read-only?", errRejected, err))
	default:
		return q.unavailable(err)
	}
}

func (q question) unavailable(err error) error {
	return q.fail(errUnavailable, databaseError{err})
}

func (q question) fail(kind, cause error) error {
	if q.name == "" {
		return fmt.Errorf("%s: %w: %w", q.op, kind, cause)
	}
	e := &renewer.Error{Op: q.op, Name: q.name, Kind: kind, Err: cause}
	if _, asked := errors.AsType[databaseError](cause); asked {
		e.Attempts = 1
	}
	return e
}

// lost is the error of a holder whom a later one has overtaken.
func (q question) lost() error {
	return &renewer.LostError{
		Name: q.name, Reason: renewer.ReasonTaken, Fence: q.fence, Err: errTaken,
	}
}

// databaseError is a driver's error in a chain. A context error in it is that of a question, not
// the caller's, and must not be taken for it; all else can be found.
type databaseError struct{ error }

func (e databaseError) Is(target error) bool {
	return target != context.Canceled && target != context.DeadlineExceeded &&
		errors.Is(e.error, target)
}

func (e databaseError) As(target any) bool { return errors.As(e.error, target) }

// lateError is a driver's error when the recorder's own limit had passed.
type lateError struct {
	error

	timeout time.Duration
}

// Error says what has passed, in place of the driver's words for the end of a context.
func (e lateError) Error() string {
	return fmt.Sprintf("the database gave no connection or answer within Timeout (%v)", e.timeout)
}

func (e lateError) Unwrap() error { return e.error }

// permanent reports whether the same question will get the same answer until the database is
// changed. Drivers of PostgreSQL give a code: of class 42 are a table that is missing or of another
// shape, and a right; 25006 is a database that is only read.
func permanent(err error) bool {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		code := coded.SQLState()
		return strings.HasPrefix(code, "42") || code == "25006"
	}
	return slices.ContainsFunc([]string{
		"no such table", "no such column", "has no column named",
		"ON CONFLICT clause does not match", "attempt to write a readonly database",
	}, func(text string) bool { return strings.Contains(err.Error(), text) })
}
