package once

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// How work can end, or fail to, beside the errors of package lockmw.
// errors.Is tells them apart; each comes as an *[Error].
var (
	// ErrAttemptsExhausted means that as many attempts as [MaxAttempts] allows have
	// failed, died or lost the lock. No caller tries any more until [Keep] is over.
	ErrAttemptsExhausted = errors.New("lockbeat: all attempts have failed")
	// ErrGivenUp means that an attempt has said that no other would do
	// better: see [Permanent]. No caller tries any more until [Keep] is over.
	ErrGivenUp = errors.New("lockbeat: the work was given up")
	// ErrResult means that the work is done, but that its result could not be
	// stored: too large, or not to be encoded. It is not done again. The caller
	// whose attempt it was gets the result beside the error, others do not.
	ErrResult = errors.New("lockbeat: done, but its result could not be stored")
	// ErrNotRecorded means that an attempt of this call has succeeded, but that it could
	// not be recorded for the others: the store was down for too long, or has lost its
	// data. The result is returned beside the error. Another caller may do the work again. With a
	// [Transactional] recorder it is not known whether the transaction was committed; the next call
	// finds out.
	ErrNotRecorded = errors.New("lockbeat: done, but others may not know")
	// ErrRecord means that what the store has for this name, or the result in it,
	// can't be read: another program's, another version's, or of another type. A type is told by
	// its package's path and its name: one that was renamed or moved is another. Nothing is
	// overwritten, and the function is not run. It is gone after [Keep], or by [Forget].
	ErrRecord = errors.New("lockbeat: unreadable record")
	// ErrConflict means that the database has undone the transaction of this call each time, since
	// it was in conflict with other ones: a serialization failure or a deadlock. The work is not
	// done, and no attempt is used up. A [Transactional] recorder says so. The function is run
	// again for as long as [Wait] allows from the first conflict on, 100 times at most;
	// with [NoRetry] it is not.
	ErrConflict = errors.New("lockbeat: the transaction was in conflict with others")
	// ErrNotYet means that the last attempt has failed, and that the next one may not begin before
	// [Error].RetryAfter is over, which is longer than this call may wait: see [RetryIn].
	ErrNotYet = errors.New("lockbeat: the next attempt may not begin yet")
	// ErrInput means that the name is that of work with another [Input].
	ErrInput = errors.New("lockbeat: this name is another work's")
)

// Error is how the work ended, or what kept it from being done.
type Error struct {
	// Kind is one of the Err… values of this package.
	Kind error
	// Name is the work's name as the caller gave it. Do not show it
	// to remote callers: it may carry their data.
	Name string
	// Attempts counts those that were begun.
	Attempts int
	// Last made the last of them; its zero value when unknown.
	Last store.Holder
	// RetryAfter is how long after that the next attempt may begin, with [ErrNotYet]; otherwise 0.
	RetryAfter time.Duration
	// Err is why, as far as this process knows: errors of functions are told to other processes
	// by [TellErrors] only. Or nil.
	Err error
}

// Error says what happened to which work. It names the work: log [renewer.ErrorText] where names
// may carry personal data.
func (e *Error) Error() string { return e.text(named(e.Name), error.Error) }

// Nameless is Error without the work's name.
func (e *Error) Nameless() string { return e.text(unnamed, renewer.ErrorText) }

func (e *Error) text(what string, textOf func(error) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "lockbeat: %s: %s", what, strings.TrimPrefix(e.Kind.Error(), "lockbeat: "))
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, ", but in %v", e.RetryAfter.Round(time.Millisecond))
	}
	if e.Attempts > 0 {
		fmt.Fprintf(&b, "; attempts: %d", e.Attempts)
	}
	if e.Last != (store.Holder{}) {
		fmt.Fprintf(&b, ", the last by %s", e.Last)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %s", strings.TrimPrefix(textOf(e.Err), "lockbeat: "))
	}
	return b.String()
}

// Unwrap gives errors.Is and errors.As both the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// unbegunError is why a transaction was not begun, and with it no attempt.
type unbegunError struct {
	error

	name string
}

func (e unbegunError) Error() string {
	return "lockbeat: " + named(e.name) + ": " + e.error.Error()
}

// Nameless is Error without the work's name.
func (e unbegunError) Nameless() string {
	return "lockbeat: " + unnamed + ": " + renewer.ErrorText(e.error)
}

func (e unbegunError) Unwrap() error { return e.error }

// unnamed is the work in a text without its name.
const unnamed = "once"

func named(name string) string { return fmt.Sprintf("once %.80q", name) }

// Permanent marks an error of a function as one that no further attempt would mend: the work is
// given up, for everybody. nil stays nil. It is about this work alone: a function that returns the
// error of an inner [Do] has failed, even if the inner work was given up. To give up the outer work
// as well, it marks that error itself.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

func isPermanent(err error) bool {
	return within(err, func(err error) bool {
		_, ok := err.(permanentError) //nolint:errorlint // within unwraps
		return ok
	})
}

// within reports whether err or an error that it wraps is meant. It does not look into an *Error:
// that tells how an inner work ended.
func within(err error, meant func(error) bool) bool {
	if meant(err) {
		return true
	}
	switch e := err.(type) { //nolint:errorlint // it unwraps
	case nil, *Error:
		return false
	case interface{ Unwrap() error }:
		return within(e.Unwrap(), meant)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(err error) bool { return within(err, meant) })
	default:
		return false
	}
}
