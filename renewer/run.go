package renewer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// Run is what has become of a run of scheduled work (package cronmw), or of an attempt at work that
// must succeed once (package once), in this process.
type Run struct {
	// Job is the job's name, or the attempt's operation: a static name, as for [Operation].
	Job string
	// Due is the tick that it was for, by the store's clock; zero if there is none, and if the
	// store could not be asked and the node's own clock does not say which it was.
	Due time.Time
	// Outcome is what has become of it.
	Outcome Outcome
	// Err is, if it ran or was cut, the run's error, with [ErrLost] joined if the lock was lost;
	// and why, if it was [OutcomeNotRun] or [OutcomeConflict]. Else nil.
	Err error
	// Holder has the tick, or runs an earlier one, if it was [OutcomeSkipped]; its zero value if
	// that is not known.
	Holder store.Holder
	// Attempt is which run of the tick or the work it was, from 1 on, if it ran.
	Attempt int
	// Left is how many more runs the tick may have after one that was [OutcomeCut]: 0 means that
	// the rest of it is not run.
	Left int
	// Missed is how many ticks before this one no node has taken, since the one on record. It is
	// counted if this one ran, by the node that ran it, or was [OutcomeMissed].
	Missed int
	// Took is how long it took, run and lock.
	Took time.Duration
	// LastSuccess is when a run of the job last succeeded, on any node; zero if that is not known.
	LastSuccess time.Time
	// DueBy is by when the job has to have succeeded once more: two ticks after its last success,
	// or after it was added, with time for the run. Zero if it has no schedule.
	DueBy time.Time
}

// Outcome is what has become of a run.
type Outcome string

const (
	// OutcomeAdded means that the job was added to this node, and has not been called yet.
	OutcomeAdded Outcome = "added"
	// OutcomeRan means that it was run here.
	OutcomeRan Outcome = "ran"
	// OutcomeCut means that it was run here by TakeOver of package cronmw, and the run ended before
	// it was done: its context had ended when it returned Err. The nodes that stand by run it
	// again, and this one with them if it lives, unless Left is 0.
	OutcomeCut Outcome = "cut"
	// OutcomeSkipped means that it is another node's, that an earlier tick is still being run, or
	// that the scheduler has called when no tick was due.
	OutcomeSkipped Outcome = "skipped"
	// OutcomeMissed means that it had been due for longer than its grace when this node called,
	// and that no node has taken it.
	OutcomeMissed Outcome = "missed"
	// OutcomeNotRun means that it could not be taken for another reason: [ErrUnavailable] if the
	// store could not be asked, [ErrShutdown], the error of the context, or that the job's record
	// has a tick more than a second from now by the store's clock, which was put back: no tick
	// until then is run, on any node. The error's text names the record, which is to be deleted if
	// that clock was wrong.
	OutcomeNotRun Outcome = "not run"
	// OutcomeConflict is told beside the others, once a process: the job's record was written by
	// this job's schedule and by another one in turns, so that two programs seem to have a job of
	// this name. Err says what to do; Holder is the node with the other schedule.
	OutcomeConflict Outcome = "conflict"
)

// Ran logs runs and skips at Debug; missed ticks, runs that were cut and may be taken over,
// conflicts, and errors that a caller gets, too, at Warn; other errors at Error.
func (o *logObserver) Ran(ctx context.Context, e Run) {
	level, leftOut := o.limited(ctx, e.level(), "run "+string(e.Outcome), e.Job)
	if !o.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("job", e.Job), slog.String("outcome", string(e.Outcome)),
		slog.Duration("took", e.Took),
	}
	if !e.Due.IsZero() {
		attrs = append(attrs, slog.Time("due", e.Due))
	}
	if e.Missed > 0 {
		attrs = append(attrs, slog.Int("missed", e.Missed))
	}
	if e.Outcome == OutcomeCut {
		attrs = append(attrs, slog.Int("attempt", e.Attempt), slog.Int("left", e.Left))
	}
	if e.Err != nil {
		attrs = append(attrs, o.errorAttr("", e.Err))
	}
	if e.Holder != (store.Holder{}) {
		attrs = append(attrs, slog.String("holder", e.Holder.String()))
	}
	o.log.LogAttrs(ctx, level, "run of a job", withLeftOut(attrs, leftOut)...)
}

// level is at which level a run is logged.
func (e Run) level() slog.Level {
	switch {
	case e.Outcome == OutcomeCut && e.Left > 0, e.Outcome == OutcomeConflict:
		return slog.LevelWarn
	case e.Outcome == OutcomeNotRun && e.stopped():
		return slog.LevelInfo
	case e.Err != nil && e.DueBy.IsZero(): // no schedule, which would listen to no error
		return slog.LevelWarn
	case e.Err != nil:
		return slog.LevelError
	case e.Outcome == OutcomeMissed, e.Missed > 0:
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}

// stopped reports whether it was not run since the process ends.
func (e Run) stopped() bool {
	return errors.Is(e.Err, ErrShutdown) || errors.Is(e.Err, context.Canceled)
}
