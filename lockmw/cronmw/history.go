package cronmw

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/lockmw/internal/schedulers"
	"github.com/lockbeat/lockbeat/renewer"
)

// Last is what is on record of a job's latest tick. Times are the store's.
type Last struct {
	// Known is since when the store knows the job; zero if it does not.
	Known time.Time
	// Due is when the latest tick was due that a node has taken; zero if none has.
	Due time.Time
	// Next is when the one after it is due, by the schedule that it was taken by.
	Next time.Time
	// Begun and Ended are those of its run, the last one if there were several.
	// Ended is zero while it runs, and if its node has died.
	Begun, Ended time.Time
	// Attempt counts its runs, from 1 on: see [TakeOver].
	Attempt int
	// Result is what has become of the run.
	Result Result
	// Holder is the node that ran it, and the process.
	Holder renewer.Holder
}

// Took is how long the run took; 0 if it has not ended.
func (l Last) Took() time.Duration {
	if l.Ended.IsZero() {
		return 0
	}
	return l.Ended.Sub(l.Begun)
}

// Result is what has become of a run. It has no text of an error, which may carry personal data.
type Result string

// The results.
const (
	ResultNone      = Result(ticks.Running)   // it has not ended, or its node has died
	ResultSucceeded = Result(ticks.Succeeded) // it returned no error
	ResultFailed    = Result(ticks.Failed)    // it returned an error
	ResultLost      = Result(ticks.Lost)      // its lock was lost before it returned
	ResultPanicked  = Result(ticks.Panicked)  // it did not return
	// ResultCut means that it was cut before it was done, which another node may run again by
	// [TakeOver]: its context had ended when it returned an error, or it did not return.
	ResultCut = Result(ticks.Cut)
)

// History reads what is on record of the job of this name, on any node, with the job or without it.
// It asks the store once, and may be called concurrently. The zero value means that the store knows
// no such job, or none any more: the record of the last tick is kept for a week, or for four
// intervals. The error is [renewer.ErrUnavailable], [renewer.ErrName], [renewer.ErrConfig] if the
// store keeps no records, [renewer.ErrRejected] if the record is not a job's, or ctx's own.
func History(ctx context.Context, k *renewer.Keeper, job string) (Last, error) {
	if k == nil {
		return Last{}, fmt.Errorf("%w: History needs a keeper: renewer.New", renewer.ErrConfig)
	}
	rec, err := ticks.NewBook(k, schedulers.OfJob, job).Look(ctx, time.Time{})
	if err != nil || rec.Version == 0 {
		return Last{}, err
	}
	return Last{
		Known: rec.Known, Due: rec.Due, Next: rec.Next, Begun: rec.Begun, Ended: rec.Ended,
		Attempt: rec.Attempt, Result: Result(rec.Outcome), Holder: rec.Holder(),
	}, nil
}
