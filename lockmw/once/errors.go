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

// How work can end. Each comes as an *[Error].
var (
	// ErrAttemptsExhausted means that as many attempts as [MaxAttempts] allows
	// have failed. No caller tries any more, also with a higher number: see
	// [Forget].
	ErrAttemptsExhausted = errors.New("lockbeat: all attempts have failed")
	// ErrGivenUp means that an attempt has returned a [Permanent] error. No
	// caller tries any more.
	ErrGivenUp = errors.New("lockbeat: the work was given up")
	// ErrResult means that the work is done, and that its result is too large
	// to be stored, or can't be encoded. The caller whose attempt it was gets
	// it beside the error, others do not.
	ErrResult = errors.New("lockbeat: done, but its result could not be stored")
	// ErrNotRecorded means that an attempt of this call has succeeded, and that
	// the store could not be told. The result is beside the error. Others may
	// do the work again; with a [Transactional] recorder the next call finds
	// out whether it was committed.
	ErrNotRecorded = errors.New("lockbeat: done, but others may not know")
	// ErrRecord means that the record, or the result in it, can't be read, and
	// stays: it is another program's, another version's, or of another type
	// (see [Do]).
	ErrRecord = errors.New("lockbeat: unreadable record")
	// ErrConflict means that a serialization failure or a deadlock has undone
	// each transaction of this call, for as long as it may wait and 100 times
	// at most. No attempt is used up.
	ErrConflict = errors.New("lockbeat: the transaction was in conflict with others")
	// ErrNotYet means that an attempt has failed, and that the next may begin
	// in [Error].RetryAfter, which is later than this call may wait: see
	// [Retry].
	ErrNotYet = errors.New("lockbeat: the next attempt may not begin yet")
	// ErrInput means that the name is that of work with another [Input].
	ErrInput = errors.New("lockbeat: this name is another work's")
)

// Error is how the work ended, or what kept it from being done.
type Error struct {
	// Kind is one of the Err… values of this package.
	Kind error
	// Name is the work's, which may carry personal data.
	Name string
	// Attempts counts those that were begun.
	Attempts int
	// Last made the last of them; zero if unknown.
	Last store.Holder
	// RetryAfter is how long no attempt may begin, with [ErrNotYet]; otherwise 0.
	RetryAfter time.Duration
	// Err is why, as far as this process knows, or nil: see [TellErrors].
	Err error
}

// Error names the work: log [renewer.ErrorText] where names may carry personal
// data.
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

// Permanent marks an error of a function as one that no further attempt would
// mend: the work is given up, for everybody. nil stays nil. The error of an
// inner [Do] is not Permanent for the outer one, unless it is marked again.
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

// within reports whether err or an error that it wraps is meant. It does not
// look into an *Error: that tells how an inner work ended.
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
