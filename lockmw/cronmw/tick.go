package cronmw

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/renewer"
)

// Tick is what has become of one tick of a job on this node.
type Tick struct {
	// Job is the job's name.
	Job string
	// Due is when it was due, by the store's clock; zero if the store could not be asked and this
	// node's own clock does not say which tick it was.
	Due time.Time
	// Outcome is what has become of it.
	Outcome Outcome
	// Err is, if it ran or was cut, the run's error, with [renewer.ErrLost] joined
	// if the lock was lost; and why, if it was [OutcomeNotRun] or [OutcomeConflict]. Else nil.
	Err error
	// Holder has the tick, or runs an earlier one, if it was
	// [OutcomeSkipped]; its zero value if that is not known.
	Holder renewer.Holder
	// Attempt is which run of the tick it was, from 1 on, if it ran: see [TakeOver].
	Attempt int
	// Left is how many more runs the tick may have after one that was [OutcomeCut]: 0 means that
	// the rest of it is not run.
	Left int
	// Missed is how many ticks before this one no node has taken, since the one on record.
	// It is counted if this one ran, by the node that ran it, or was [OutcomeMissed].
	Missed int
	// Took is how long it took, run and lock.
	Took time.Duration
}

// Outcome is what has become of a tick on a node.
type Outcome string

const (
	// OutcomeRan means that it was run here.
	OutcomeRan Outcome = "ran"
	// OutcomeCut means that it was run here by [TakeOver], and the run ended before it was done:
	// its context had ended when it returned Err. The nodes that stand by run it again, and this
	// one with them if it lives, unless [Tick].Left is 0.
	OutcomeCut Outcome = "cut"
	// OutcomeSkipped means that it is another node's, that an earlier tick is still being run, or
	// that the scheduler has called when no tick was due.
	OutcomeSkipped Outcome = "skipped"
	// OutcomeMissed means that it had been due for longer than its grace when this node called,
	// and that no node has taken it.
	OutcomeMissed Outcome = "missed"
	// OutcomeNotRun means that it could not be taken for another reason:
	// [renewer.ErrUnavailable] if the store could not be asked, [renewer.ErrShutdown], the error
	// of the context, or [ErrRecordAhead]. No other node may have had more luck.
	OutcomeNotRun Outcome = "not run"
	// OutcomeConflict is told beside the others, once a process: the job's record was written by
	// this job's schedule and by another one in turns, so that two programs seem to have a job of
	// this name. Err says what to do; Holder is the node with the other schedule.
	OutcomeConflict Outcome = "conflict"
)

// ErrRecordAhead means that a tick was not run since the job's record has one that is more than a
// second from now by the store's clock, which was put back: no tick until then is run, on any node.
// The error's text names the record, which is to be deleted if that clock was wrong.
var ErrRecordAhead = ticks.ErrRecordAhead

// refused is the tick of an error of the lock.
func refused(due time.Time, err error) Tick {
	if errors.Is(err, ticks.ErrLate) {
		return Tick{Due: due, Outcome: OutcomeMissed}
	}
	if lockmw.RefusalOf(err) != lockmw.RefusalHeld {
		return Tick{Due: due, Outcome: OutcomeNotRun, Err: err}
	}
	t := Tick{Due: due, Outcome: OutcomeSkipped}
	if e, ok := errors.AsType[*renewer.Error](err); ok {
		t.Holder = e.Holder
	}
	return t
}

// LogTicks returns a function for [Config].OnTick that logs: runs and skips at level Debug, missed
// ticks, runs that were cut and may be taken over, conflicts, and [ErrRecordAhead] at Warn, other
// errors at Error. A nil logger is slog.Default().
func LogTicks(l *slog.Logger) func(context.Context, Tick) {
	if l == nil {
		l = slog.Default()
	}
	return func(ctx context.Context, t Tick) {
		attrs := []slog.Attr{
			slog.String("job", t.Job), slog.String("outcome", string(t.Outcome)),
			slog.Duration("took", t.Took),
		}
		if !t.Due.IsZero() {
			attrs = append(attrs, slog.Time("due", t.Due))
		}
		if t.Missed > 0 {
			attrs = append(attrs, slog.Int("missed", t.Missed))
		}
		if t.Outcome == OutcomeCut {
			attrs = append(attrs, slog.Int("attempt", t.Attempt), slog.Int("left", t.Left))
		}
		if t.Err != nil {
			attrs = append(attrs, slog.Any("error", t.Err))
		}
		if t.Holder != (renewer.Holder{}) {
			attrs = append(attrs, slog.String("holder", t.Holder.String()))
		}
		l.LogAttrs(ctx, t.level(), "scheduled job", attrs...)
	}
}

// level is at which level the tick is logged.
func (t Tick) level() slog.Level {
	switch {
	case t.Outcome == OutcomeCut && t.Left > 0, t.Outcome == OutcomeConflict,
		errors.Is(t.Err, ErrRecordAhead):
		return slog.LevelWarn
	case t.Err != nil:
		return slog.LevelError
	case t.Outcome == OutcomeMissed, t.Missed > 0:
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}
