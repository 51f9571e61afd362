package cronmw

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
)

// catchUp looks, when a job begins on this node, for what no node has run or is running: the tick
// whose node has died in the middle, and the last one that no node has taken.
func (j *Job) catchUp(ctx context.Context) {
	begun, next := time.Now(), j.schedule.Next(j.book.Now())
	rec, err := j.book.Look(ctx, next)
	if err == nil && j.book.Attempts > 1 && rec.Unended() {
		j.makeUp(ctx, begun, rec, rec.Due)
		rec, err = j.book.Look(ctx, next)
	}
	now := j.book.Now()
	switch due := ticks.Last(j.schedule, rec.Free(), now); {
	case err != nil:
		j.tell(ctx, begun, Tick{Outcome: OutcomeNotRun, Err: err})
	case !j.ifMissed:
	case rec.Version == 0: // if it fails, the job is known from its first tick on
		_ = j.book.Introduce(ctx, j.schedule.Next(now))
	case !due.IsZero():
		j.makeUp(ctx, begun, rec, due)
	}
}

// makeUp runs a tick that was due before, if no other node does. It may be begun for as long as a
// grace from now on.
func (j *Job) makeUp(ctx context.Context, begun time.Time, rec ticks.Record, due time.Time) {
	t := j.take(ctx, rec, due, j.book.Now().Add(j.book.Grace))
	if t.Outcome != OutcomeSkipped {
		j.tell(ctx, begun, t)
	}
}
