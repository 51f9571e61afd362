package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/renewer"
)

// Outcome is what became of a delivery of a job: see the package's table.
type Outcome uint8

const (
	// OutcomeRan means that the function ran: the framework is told its error.
	OutcomeRan Outcome = iota + 1
	// OutcomeDone means that the job is not to run again: another caller does
	// its work. Err is nil, or an error of its own that a function returned
	// which was replaced while it ran.
	OutcomeDone
	// OutcomeBack means that the job goes back to its queue for RetryIn, and
	// uses up no attempt.
	OutcomeBack
	// OutcomeCopied means that a copy of the job is in its queue: the job
	// itself is dropped.
	OutcomeCopied
	// OutcomeFailed means that the job was Last, and could not run; or that it
	// never can as it is set up, such as by a limit below 0:
	// [renewer.ErrConfig]. The framework is told the error.
	OutcomeFailed
	// OutcomeUnusable means that the job can never run: its lock's name is
	// [renewer.ErrName].
	OutcomeUnusable
	// OutcomeEnded means that the framework's context ended before the job had
	// its lock. If the framework still asks, the job goes back for RetryIn, and
	// uses up no attempt.
	OutcomeEnded

	// outcomeAgain means that the job asks for its lock again, and waits for it
	// in its slot.
	outcomeAgain
	// outcomePause means that it asks again after a pause, as long as it has
	// time.
	outcomePause
)

// situation is that of a job that did not get its lock.
type situation struct {
	Refusal adapter.Refusal
	Ended   bool // its framework's context has
	Place   bool // it has a place in line
	Wait    bool // the lock is busy, and the job may wait for it
	Last    bool // it can't go back
	Copies  bool // but a copy of it can
	Crowded bool // the lock is busy, and no slot was free to wait in
}

// decide is the package's table, for a job that has not run.
func decide(s situation) Outcome {
	switch {
	case s.Refusal == adapter.RefusalSkipped, s.Refusal == adapter.RefusalReplaced:
		return OutcomeDone
	case s.Refusal == adapter.RefusalName:
		return OutcomeUnusable
	case s.Refusal == adapter.RefusalMisuse: // it may run when the program is mended
		return OutcomeFailed
	case s.Ended:
		return OutcomeEnded
	case s.Place && s.Last:
		return OutcomeCopied
	case s.Place:
		return OutcomeBack
	case s.Wait:
		return outcomeAgain
	case !s.Last:
		return OutcomeBack
	case s.Copies:
		return OutcomeCopied
	case s.Crowded:
		return OutcomeFailed
	default:
		return outcomePause
	}
}

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

// refusalOf is adapter.RefusalOf, but a job whose outer lock was replaced has
// lost that.
func refusalOf(err error) adapter.Refusal {
	if errors.Is(err, renewer.ErrLost) {
		return adapter.RefusalLost
	}
	return adapter.RefusalOf(err)
}

// ranOut is the result of work that has run on a context, and has returned own.
// err is own with what became of the lock. A lock of the work's own says
// nothing here.
func (h *handler) ranOut(ctx context.Context, own, err error) Result {
	switch {
	case !h.isNewest(), !errors.Is(context.Cause(ctx), renewer.ErrReplaced):
		return Result{Outcome: OutcomeRan, Err: err}
	case own == nil, errors.Is(own, context.Canceled), errors.Is(own, renewer.ErrLost):
		return Result{Outcome: OutcomeDone}
	default:
		return Result{Outcome: OutcomeDone, Err: err}
	}
}
