package cronmw

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
)

// catchUp looks, when a job begins on this node, for what no node has run or is running: the tick
// whose node has died in the middle, and the last one that no node has taken.
func (j *Job) catchUp(ctx context.Context) {
	begun := time.Now()
	next := j.schedule.Next(j.book.Now())
	rec, err := j.book.Look(ctx, next)
	if err != nil {
		j.tell(ctx, begun, Tick{Outcome: OutcomeNotRun, Err: err})
		return
	}
	if j.attempts > 1 && rec.Unended() {
		if t := j.take(ctx, rec, rec.Due, 0); t.Outcome != OutcomeSkipped {
			j.tell(ctx, begun, t)
		}
		if rec, err = j.book.Look(ctx, next); err != nil {
			return // the next tick's call tells of the store
		}
	}
	now := j.book.Now()
	switch next = j.schedule.Next(now); {
	case !j.ifMissed:
	case rec.Known.IsZero():
		_ = j.book.Introduce(ctx, next) // if it fails, the job is known from its first tick on
	default:
		j.takeMissed(ctx, begun, rec, now)
	}
}

// takeMissed runs the last tick that no node has taken, if there is one. It may be begun for as
// long as a grace from now on.
func (j *Job) takeMissed(ctx context.Context, begun time.Time, rec ticks.Record, now time.Time) {
	due := ticks.Last(j.schedule, rec.Free(), now)
	if due.IsZero() {
		return
	}
	if t := j.take(ctx, rec, due, now.Add(j.book.Grace).Sub(due)); t.Outcome != OutcomeSkipped {
		j.tell(ctx, begun, t)
	}
}
