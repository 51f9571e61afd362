package cronmw

import (
	"math/rand/v2"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/renewer"
)

// looksBack reports whether the job looks for ticks of former times.
func (j *Job) looksBack() bool { return j.ifMissed || j.book.Attempts > 1 }

// catchUp looks, when a job begins on this node and when the store was away,
// for what no node has run or is running: the tick that was cut or whose node
// has died in the middle, and the last one that no node has taken. It may be
// begun for as long as a grace from now on. While the store is away it looks
// later.
func (j *Job) catchUp() {
	ctx, begun := j.node.ctx, time.Now()
	for {
		rec, err := j.book.Look(ctx, time.Time{})
		if ticks.Passing(err) {
			j.lookLater()
			return
		}
		t := renewer.Run{Outcome: renewer.OutcomeNotRun, Err: err}
		if err == nil {
			due := j.left(rec)
			if due.IsZero() {
				return
			}
			t = j.take(ctx, begun, rec, due, j.book.Now().Add(j.book.Grace))
		}
		if t.Outcome != renewer.OutcomeSkipped {
			j.tell(ctx, begun, t)
		}
		if t.Outcome != renewer.OutcomeRan { // else there may be another
			return
		}
	}
}

// left is the tick of former times that is to be run; zero if there is none.
func (j *Job) left(rec ticks.Record) time.Time {
	switch {
	case rec.Unended() && rec.Attempt < j.book.Attempts:
		return rec.Due
	case j.ifMissed:
		return ticks.Last(j.book.Schedule, j.book.Free(rec), j.book.Now())
	default:
		return time.Time{}
	}
}

// lookIn is about how long after the store was away a job looks for what was
// missed.
const lookIn = 10 * time.Second

// lookLater looks in a while for what was missed, unless this will be done
// already.
func (j *Job) lookLater() {
	if !j.looksBack() || j.later.Swap(true) {
		return
	}
	go func() {
		if ticks.Sleep(j.node.ctx, lookIn/2+rand.N(lookIn)) == nil {
			j.later.Store(false) // first: a tick that is not run from now on may have come too late
			j.catchUp()
		}
	}()
}
