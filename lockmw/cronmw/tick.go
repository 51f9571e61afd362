package cronmw

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
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
	Holder store.Holder
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
	// of the context, or that the job's record has a tick more than a second from now by the
	// store's clock, which was put back: no tick until then is run, on any node. The error's text
	// names the record, which is to be deleted if that clock was wrong.
	OutcomeNotRun Outcome = "not run"
	// OutcomeConflict is told beside the others, once a process: the job's record was written by
	// this job's schedule and by another one in turns, so that two programs seem to have a job of
	// this name. Err says what to do; Holder is the node with the other schedule.
	OutcomeConflict Outcome = "conflict"
)

type currentKey struct{}

// Current is the tick that ctx belongs to: its Job, Due, Attempt and Missed. Job and Due together
// name it, on all nodes alike. The zero value outside of a job's function, and by [Job.RunNow].
func Current(ctx context.Context) Tick {
	t, _ := ctx.Value(currentKey{}).(Tick)
	return t
}
