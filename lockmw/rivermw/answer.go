package rivermw

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/riverqueue/river"

	"github.com/lockbeat/lockbeat/lockmw/jobs"
)

// markKey is where the metadata of a job in line has the mark of its refusal:
// see [database.State].
const markKey = "lockbeat_line"

// isMarked reports whether a job was refused when it ran last.
func isMarked(metadata []byte) bool {
	var has struct {
		Mark string `json:"lockbeat_line"`
	}
	_ = json.Unmarshal(metadata, &has) // what is no JSON has none
	return has.Mark != ""
}

// answer is what River is told of a delivery. A job that is marked and does not
// go back into line loses its mark: else it would be called when it is snoozed
// by its own worker.
func answer(ctx context.Context, marked bool, r jobs.Result) error {
	switch {
	case r.InLine:
		mark(ctx, r.Mark)
	case marked:
		mark(ctx, nil)
	}
	switch r.Outcome {
	case jobs.OutcomeDone, jobs.OutcomeUnusable:
		if r.Err == nil {
			return nil
		}
		return river.JobCancel(r.Err)
	case jobs.OutcomeBack, jobs.OutcomeEnded:
		return &notRunError{r}
	default: // it ran
		return r.Err
	}
}

// mark has River keep a mark with a job, or none by nil.
func mark(ctx context.Context, value any) {
	_ = river.MetadataSet(ctx, markKey, value) // fails where no client calls the worker
}

// notRunError is the error for a job that is snoozed for want of its lock.
type notRunError struct{ jobs.Result }

// Error says what becomes of the job, and why it did not run. It names the
// lock.
func (e *notRunError) Error() string {
	when := "in about " + e.RetryIn.Round(time.Millisecond).String()
	if e.InLine {
		when = "when its turn is near, or " + when
	}
	return fmt.Sprintf("lockbeat: job not run, it comes back %s, with no attempt used up: %s", when,
		strings.TrimPrefix(e.Err.Error(), "lockbeat: "))
}

// Unwrap gives River its snooze, and others the reason.
func (e *notRunError) Unwrap() []error { return []error{river.JobSnooze(e.RetryIn), e.Err} }
