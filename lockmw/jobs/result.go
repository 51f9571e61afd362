package jobs

import (
	"errors"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/renewer"
)

// Result is what became of a delivery.
type Result struct {
	// Outcome says what the adapter does with the job.
	Outcome Outcome
	// Err is the function's own error if it ran, with [renewer.ErrLost] joined
	// to it if its lock was lost, and otherwise why it did not run. It is nil
	// if all is well.
	Err error
	// RetryIn is after how long a job that did not run comes back, or its copy
	// does, whatever the framework's own delays. It is 0 if the job ran, or
	// never will.
	RetryIn time.Duration
	// InLine means that the job, or its copy, has a place in line, and is
	// called when its turn is near: RetryIn is for when that fails.
	InLine bool
	// Copy is the ID of the copy of an [OutcomeCopied].
	Copy string
	// Crowded is the reason of an [OutcomeFailed]: as many jobs that are Last
	// wait as may.
	Crowded bool
	// Mark is a text to keep with a job that did not run, by which its [Queue]
	// knows which lock refused it: see [Queue.State]. It has a hash of the
	// lock's name, and no more of it.
	Mark string
}

// notRun is the result of a job that did not run under a set.
func notRun(outcome Outcome, set names.Set, err error) Result {
	w, _, _ := set.One()
	name := w.Name
	if refused, ok := errors.AsType[*renewer.Error](err); ok {
		name = refused.Name
	}
	return Result{Outcome: outcome, Err: err, Mark: mark(name)}
}

// mark is that of a refusal by the lock on name. A process wakes only jobs that
// have it, and so must processes of later versions: it stays as it is. It is
// what logs show of the lock if they have no secret.
func mark(name string) string { return "[lock_hash=" + renewer.HashName(name, nil) + "]" }
