package jobs

import (
	"errors"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// Result is what became of a delivery.
type Result struct {
	// Outcome says what the adapter does with the job.
	Outcome Outcome
	// Err is the function's own error if it ran, with [renewer.ErrLost] joined to it if its lock
	// was lost, and otherwise why it did not run, to errors.Is. It is nil if all is well.
	Err error
	// RetryIn is after how long a job that did not run may come back, or its copy does: the
	// framework's own delays, and its count of attempts, say nothing here. It is a random duration
	// around that of the option [RetryIn]; 0 if the job ran, or never will.
	RetryIn time.Duration
	// InLine means that the job, or its copy, has a place in line, and is woken when its turn is
	// near: RetryIn is for when that fails.
	InLine bool
	// Copy is the ID of the copy of an [OutcomeCopied], "" otherwise.
	Copy string
	// Crowded means that an [OutcomeFailed] is one since as many jobs that are Last wait as may.
	Crowded bool
	// Lock is the name of the lock or the limit for want of which the job did not run, of several
	// the one that was busy; "" if it ran. A [Queue] needs it to know its jobs again: see
	// [Queue.State].
	Lock string
}

// notRun is the result of a job that did not run on name.
func notRun(outcome Outcome, name string, err error) Result {
	if refused, ok := errors.AsType[*renewer.Error](err); ok {
		name = refused.Name
	}
	return Result{Outcome: outcome, Err: err, Lock: name}
}
