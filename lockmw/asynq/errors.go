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

// ErrPayload means that a task's payload can't be decoded. asynq archives it.
var ErrPayload = errors.New("lockbeat: unusable task")

// NotRunError is what a handler returns for a task that did not run, for want
// of its lock. It is [renewer.ErrBusy], [renewer.ErrUnavailable] or
// [renewer.ErrShutdown], and asynq.RevokeTask if a copy has taken the task's
// place.
type NotRunError struct {
	// Result says what becomes of the task. It comes back within a
	// DelayedTaskCheckInterval of RetryIn, in whole seconds. After a
	// [jobs.OutcomeFailed] asynq archives it.
	jobs.Result
}

// answer makes of a job's result what the handler returns.
func answer(r jobs.Result) error {
	switch r.Outcome {
	case jobs.OutcomeDone:
		if r.Err == nil {
			return nil
		}
		return errors.Join(r.Err, asynq.RevokeTask)
	case jobs.OutcomeUnusable:
		return fmt.Errorf("%w: %w", r.Err, asynq.SkipRetry)
	case jobs.OutcomeBack, jobs.OutcomeCopied:
		return &NotRunError{r}
	case jobs.OutcomeFailed:
		if errors.Is(r.Err, renewer.ErrConfig) {
			return r.Err // a mistake in the program, and no refusal
		}
		return &NotRunError{r}
	default: // it ran, or asynq has settled what becomes of it, and doesn't listen any more
		return r.Err
	}
}

// Error names the lock, as asynq's last error of the task does: log
// [renewer.ErrorText] where names may carry personal data.
func (e *NotRunError) Error() string {
	when := "in about " + e.RetryIn.Round(time.Millisecond).String()
	if e.InLine {
		when = "when its turn is near, or " + when
	}
	var what string
	switch {
	case e.Crowded:
		what = " on its last attempt, since others wait in their workers already (a copy would " +
			"bring it back: asynqmw.NoCopies)"
	case e.Outcome == jobs.OutcomeFailed:
		what = ", and its last attempt may wait no longer"
	case e.Copy != "":
		what = fmt.Sprintf(", it goes on as %s %s", e.Copy, when)
	case e.InLine:
		what = fmt.Sprintf(", it stands in line, and comes back %s, with no attempt used up", when)
	default:
		what = fmt.Sprintf(", it comes back %s, with no attempt used up", when)
	}
	return strings.TrimSpace("lockbeat: task not run" + what + ": " +
		strings.TrimPrefix(e.Err.Error(), "lockbeat: ") + " " + e.Mark)
}

// Unwrap gives errors.Is and errors.As what it is made of.
func (e *NotRunError) Unwrap() []error {
	switch {
	case e.Copy != "":
		return []error{e.Err, asynq.RevokeTask}
	case e.Crowded:
		return []error{e.Err, renewer.ErrQueueFull}
	default:
		return []error{e.Err}
	}
}
