package jobs

import "github.com/lockbeat/lockbeat/lockmw/adapter"

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
