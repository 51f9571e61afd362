// Package exit has the exit statuses of the program, those of sysexits.h where
// one fits.
package exit

import (
	"errors"
	"fmt"

	"github.com/lockbeat/lockbeat/renewer"
)

// The exit statuses, beside those that a command run by `lockbeat run` has
// itself.
const (
	OK          = 0
	Warning     = 1   // doctor: the worst that it has found
	Failure     = 2   // doctor: locks are not safe, or do not work
	Unknown     = 3   // doctor: it may not look at something, and has found nothing worse
	Cut         = 4   // ls: there are more than --limit
	Declined    = 5   // break: the answer was no
	Usage       = 64  // an argument makes no sense
	Stale       = 65  // break: another lease is current than the one named
	Free        = 66  // show, break: no owner has it
	Unavailable = 69  // the store can't be asked
	Internal    = 70  // the guard of a command died, or something that can't be, is
	System      = 71  // the system refuses a process or a pipe
	Held        = 75  // another owner has the lock
	Lost        = 76  // the lock was lost, and the command was ended
	Refused     = 77  // the store refuses, such as for missing rights
	Config      = 78  // a variable or the configuration file is wrong
	CannotRun   = 126 // the command was found, and can't be executed
	NotFound    = 127 // the command was not found
	Signalled   = 128 // plus the number of the signal that ended it
)

// Error is an error with the exit status that it leads to.
type Error struct {
	Status int
	Err    error // nil: nothing is to be said
}

// Error is the text of Err.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Status)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Usagef makes the error for arguments that make no sense.
func Usagef(format string, args ...any) error {
	return &Error{Status: Usage, Err: fmt.Errorf(format, args...)}
}

// Status returns the exit status for an error, OK for nil: that of the [Error]
// in it, or else the one for its kind.
func Status(err error) int {
	var e *Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &e):
		return e.Status
	case errors.Is(err, renewer.ErrConfig):
		return Config
	case errors.Is(err, renewer.ErrName):
		return Usage
	case errors.Is(err, renewer.ErrRejected):
		return Refused
	case errors.Is(err, renewer.ErrUnavailable):
		return Unavailable
	case errors.Is(err, renewer.ErrBusy):
		return Held
	case errors.Is(err, renewer.ErrLost):
		return Lost
	default:
		return Internal
	}
}
