package sqlrecord

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/sqlfault"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
)

// question is one to the database. Its op says it all if it is not about one
// name.
type question struct {
	op, name string
	fence    int64
	timeout  time.Duration
}

func (r *recorder) question(op, name string, fence int64) question {
	return question{op: op, name: name, fence: fence, timeout: r.timeout}
}

// Kinds of errors in words that name the database, which is not the locks'
// store.
var (
	errUnavailable = sqlfault.Tell(renewer.ErrUnavailable, "the records' database is unavailable")
	errRejected    = sqlfault.Tell(renewer.ErrRejected, "it refuses")
	errCommit      = sqlfault.Tell(renewer.ErrUnavailable, "COMMIT was not answered, or refused")
	errAborted     = errors.New("a statement of the function has failed, and it went on")
	errEnded       = errors.New("the function has ended the transaction itself: leave that to " +
		"the recorder. What it has committed stands, with no record that the work is done, so " +
		"that the work is given up")
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
		return q.fail(renewer.ErrConfig, fmt.Errorf("%w: %w", errEnded, err))
	case inConflict(err):
		return q.fail(once.ErrConflict, databaseError{err})
	case sqlfault.Of(err) == sqlfault.Aborted:
		return q.fail(errAborted, databaseError{err})
	case sqlfault.Of(err).Permanent():
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

// lost is the error of a holder whom a later one has overtaken, with a higher
// token.
func (q question) lost(term int64) error {
	return &renewer.LostError{
		Name: q.name, Reason: renewer.ReasonTaken, Fence: q.fence, Err: fmt.Errorf(
			"a later holder has prepared to write its record: the row's token is %d, above this "+
				"lock's. If no other has the lock, its store has lost data and its clock has gone "+
				"back; nothing is written until tokens have risen above that", term),
	}
}

// databaseError is a driver's error in a chain. A context error in it is that
// of a question, not the caller's, and must not be taken for it; all else can
// be found.
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

// Error says what has passed, in place of the driver's words for the end of a
// context.
func (e lateError) Error() string {
	return fmt.Sprintf("the database gave no connection or answer within Timeout (%v)", e.timeout)
}

func (e lateError) Unwrap() error { return e.error }

// inConflict reports whether the database has undone a statement, and its
// transaction, since another transaction was in its way. On SQLite it is
// SQLITE_BUSY, when the busy timeout is over.
func inConflict(err error) bool {
	fault := sqlfault.Of(err)
	return fault == sqlfault.Conflict || fault == sqlfault.Busy
}

const (
	firstPause = 5 * time.Millisecond
	lastPause  = 200 * time.Millisecond
)

// insist asks again while a statement by itself is in conflict with
// transactions, until ctx ends.
func insist(ctx context.Context, ask func() error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := ask()
		if err == nil || !inConflict(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // jitter, not secrets
		}
	}
}
