package asynqmw

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
)

// ErrPayload means that a task will never be fit to run: its payload can't be decoded. asynq
// archives it.
var ErrPayload = errors.New("lockbeat: unusable task")

// unconfigured is what is wrong with a server: asynq counts an attempt for each refusal.
const unconfigured = "the server's asynq.Config did not go through asynqmw.Configure"

// NotRunError is what a handler returns for a task that did not run, for want of the lock. It is
// [renewer.ErrBusy], [renewer.ErrUnavailable] or [renewer.ErrShutdown] to errors.Is. asynq keeps
// its text as the task's last error.
type NotRunError struct {
	// Result says what becomes of the task, and why. RetryIn takes up to a DelayedTaskCheckInterval
	// longer until a server of asynq's notices, and longer still if all workers are busy, or the
	// queue is paused. After a [jobs.OutcomeFailed] asynq archives the task: it was on its last
	// attempt, and the eighth of its time is over for which it may wait; or it is Crowded, and the
	// error is [renewer.ErrQueueFull] too. After a [jobs.OutcomeCopied], the error is
	// asynq.RevokeTask too, by which asynq drops the original, uncompleted.
	jobs.Result
	// Counted means that an attempt is used up for it, and that the task comes back after asynq's
	// own delay: the server's asynq.Config did not go through [Configure], and the error is
	// [renewer.ErrConfig] too.
	Counted bool
}

// answer makes of a job's result what the handler returns.
func (l *Locks) answer(r jobs.Result, counted bool) error {
	switch r.Outcome {
	case jobs.OutcomeDone:
		if r.Err == nil {
			return nil
		}
		return errors.Join(r.Err, asynq.RevokeTask)
	case jobs.OutcomeUnusable:
		return fmt.Errorf("%w: %w", r.Err, asynq.SkipRetry)
	case jobs.OutcomeBack:
		return &NotRunError{r, counted}
	case jobs.OutcomeFailed:
		if errors.Is(r.Err, renewer.ErrConfig) {
			return r.Err // a mistake in the program, and no refusal
		}
		return &NotRunError{r, counted && !l.copies && !r.Crowded}
	case jobs.OutcomeCopied:
		return &NotRunError{r, false}
	default: // it ran, or asynq has settled what becomes of it, and doesn't listen any more
		return r.Err
	}
}

// unusable makes the error for a task that will never be fit to run.
func unusable(task *asynq.Task, what string, err error) error {
	return fmt.Errorf("%w of type %q: %s: %w: %w", ErrPayload, task.Type(), what, err,
		asynq.SkipRetry)
}

// Error says what becomes of the task, and why it did not run. It names the lock, as asynq's last
// error of the task does: log [renewer.ErrorText] where names may carry personal data.
func (e *NotRunError) Error() string {
	when := "in about " + e.RetryIn.Round(time.Millisecond).String()
	if e.InLine {
		when = "when its turn is near, or " + when
	}
	var what string
	switch {
	case e.Crowded:
		what = " on its last attempt, since others wait in their workers' slots already " +
			"(without asynqmw.NoCopies it would come back)"
	case e.Outcome == jobs.OutcomeFailed:
		what = ", and its last attempt may wait no longer"
		if e.Counted {
			what += "; refusals before may have used up the others: " + unconfigured
		}
	case e.Copy != "":
		what = fmt.Sprintf(", it goes on as %s %s", e.Copy, when)
	case e.Counted:
		what = ", and an attempt is used up: " + unconfigured
	case e.InLine:
		what = fmt.Sprintf(", it stands in line, and comes back %s, with no attempt used up", when)
	default:
		what = fmt.Sprintf(", it comes back %s, with no attempt used up", when)
	}
	return strings.TrimSpace("lockbeat: task not run" + what + ": " +
		strings.TrimPrefix(e.Err.Error(), "lockbeat: ") + " " + e.Mark)
}

// Unwrap gives errors.Is and errors.As what the error is made of.
func (e *NotRunError) Unwrap() []error {
	switch {
	case e.Copy != "":
		return []error{e.Err, asynq.RevokeTask}
	case e.Counted:
		return []error{e.Err, renewer.ErrConfig}
	case e.Crowded:
		return []error{e.Err, renewer.ErrQueueFull}
	default:
		return []error{e.Err}
	}
}
