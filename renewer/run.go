package renewer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// Run is a run of scheduled work (package cronmw), or an attempt at work that
// must succeed once (package once).
type Run struct {
	Job     string    // its name, or the attempt's operation: static
	Due     time.Time // the tick, by the store's clock; zero without one, and if unknown
	Outcome Outcome
	// Err is the run's error, with [ErrLost] joined if the lock was lost; or
	// why it is [OutcomeNotRun] or [OutcomeConflict].
	Err         error
	Holder      store.Holder  // who has the tick, or runs an earlier one, if OutcomeSkipped
	Attempt     int           // which run of the tick or the work it was, from 1 on, if it ran
	Left        int           // how many more runs the tick may have, if OutcomeCut
	Missed      int           // ticks before this one that no node has taken
	Took        time.Duration // run and lock
	LastSuccess time.Time     // of the job, on any node; zero if unknown
	// DueBy is by when the job has to have succeeded once more: two ticks after
	// its last success, or after it was added, with time for the run. Zero
	// without a schedule.
	DueBy time.Time
}

// Outcome is what has become of a run.
type Outcome string

// What may become of a run.
const (
	OutcomeAdded Outcome = "added" // the job was added to this node
	OutcomeRan   Outcome = "ran"   // it was run here
	// OutcomeCut means that its context ended before it was done, with
	// cronmw.TakeOver: a node that stands by runs it again, unless Left is 0.
	OutcomeCut     Outcome = "cut"
	OutcomeSkipped Outcome = "skipped" // another node's, one still runs, or none was due
	OutcomeMissed  Outcome = "missed"  // no node has taken it, and its grace is over
	// OutcomeNotRun means that it could not be taken: [ErrUnavailable],
	// [ErrShutdown], the context's error, or a record with a later tick, as the
	// store's clock was put back.
	OutcomeNotRun Outcome = "not run"
	// OutcomeConflict is told beside the others, once a process: two schedules
	// write the job's record, as if two programs had a job of this name. Holder
	// is the other.
	OutcomeConflict Outcome = "conflict"
)

// Ran logs runs and skips at Debug; missed ticks, runs that were cut and may be
// taken over, conflicts, and errors that a caller gets, too, at Warn; other
// errors at Error.
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
