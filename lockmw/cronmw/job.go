package cronmw

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/lockmw/internal/schedulers"
	"github.com/lockbeat/lockbeat/lockmw/internal/unwind"
	"github.com/lockbeat/lockbeat/renewer"
)

// Job is work that runs once a tick, on one node of many. Its methods may be called concurrently.
type Job struct {
	node     *Node
	book     *ticks.Book
	schedule Schedule
	fn       func(context.Context) error

	ifMissed  bool
	corrected bool // its scheduler goes by the store's clock, as far as that is known

	later atomic.Bool // it looks later for what was missed
	turns turns
}

// open refuses what can never work, and opens the job's book.
func (j *Job) open() error {
	if j.schedule == nil || j.fn == nil {
		return fmt.Errorf("%w: it needs a schedule and a function", renewer.ErrConfig)
	}
	shortest, err := ticks.Shortest(j.schedule, time.Now())
	if err != nil {
		return err
	}
	j.book.Schedule = ticks.Fingerprint(j.schedule)
	return j.node.books.Open(j.book, shortest)
}

// Name is the job's name.
func (j *Job) Name() string { return j.book.Name }

// Grace is how long after it is due a tick may still be begun.
func (j *Job) Grace() time.Duration { return j.book.Grace }

// Run is [Job.Fire] with the context given to [New]. It makes a Job a cron.Job of robfig/cron.
func (j *Job) Run() { j.Fire(j.node.ctx) }

// Fire is called when the job's schedule has a tick by this node's clock. The store's clock decides
// which tick it is: one that is due, and not later than its grace; otherwise the next one, which
// Fire waits for if this node's next call will come too late for it. So a node whose clock is ahead
// by 3 ms waits for 3 ms. Fire returns when the tick has been run here, or is found to be another
// node's; with [TakeOver], when that node has run it. Ticks are looked for, waited for and run
// until ctx ends; a run's context ends when its lock is lost, too.
//
// [Config].OnTick is told the same, unless the run panics, which passes through. If there were
// several ticks, it is told of each, and Fire returns the last.
func (j *Job) Fire(ctx context.Context) (t Tick) {
	call, begun := j.nextCall(), time.Now()
	for since := (time.Time{}); ; {
		due := j.due(since, call)
		if due.IsZero() && t.Outcome != "" {
			return t
		}
		rec, err := j.book.Look(ctx, due.Add(j.book.Grace))
		wait := false
		if err == nil {
			j.compare(ctx, rec)
			due = j.due(since, call) // by what is known now of the store's clock
			wait = due.After(j.book.Now())
		}
		if wait {
			err = j.book.SleepUntil(ctx, due)
		}
		switch {
		case err != nil:
			return j.tell(ctx, begun, Tick{Due: due, Outcome: OutcomeNotRun, Err: err})
		case due.IsZero():
			return j.tell(ctx, begun, j.nothingDue(rec))
		case !wait: // else another look decides
			until := due.Add(max(j.book.Grace, j.book.Wait))
			t, begun = j.finish(ctx, begun, rec, due, until)
			t = j.tell(ctx, begun, t)
			// What came due meanwhile has had calls of its own.
			since, begun = j.book.Now(), time.Now()
		}
	}
}

// early is how long before its tick a scheduler may call whose clock was put back meanwhile.
const early = time.Second

// slack is that for this job.
func (j *Job) slack() time.Duration { return min(early, j.book.Grace) }

// nextCall is when the scheduler calls after this call, by this node's clock; zero if it does not.
func (j *Job) nextCall() time.Time {
	ahead := time.Duration(0)
	if j.corrected {
		ahead = j.book.Ahead()
	}
	next := j.schedule.Next(j.book.Clock().Add(ahead + j.slack()))
	if next.IsZero() {
		return next
	}
	return next.Add(-ahead)
}

// due is the tick later than since that is to be taken now, or waited for; zero if there is none.
// call is that of nextCall.
func (j *Job) due(since, call time.Time) time.Time {
	now, grace := j.book.Now(), j.book.Grace
	if last := ticks.Last(j.schedule, now.Add(-grace), now); last.After(since) {
		return last
	}
	next := j.schedule.Next(now)
	if next.IsZero() || !call.IsZero() && next.Add(grace).After(call.Add(j.book.Ahead())) {
		return time.Time{}
	}
	return next
}

// finish takes the tick, and again if its run was cut: this node stands by then as the others do,
// since there may be no other. It returns the last run, and since when that was wanted.
func (j *Job) finish(
	ctx context.Context, begun time.Time, rec ticks.Record, due, until time.Time,
) (Tick, time.Time) {
	for {
		t, after := j.take(ctx, rec, due, until)
		if t.Left == 0 || ctx.Err() != nil {
			return t, begun
		}
		j.tell(ctx, begun, t)
		rec, begun, until = after, time.Now(), j.book.Now().Add(j.book.Grace)
	}
}

// take takes the tick and runs it, if it can be begun until an instant. The record is the one that
// it has written last.
func (j *Job) take(
	ctx context.Context, rec ticks.Record, due, until time.Time,
) (Tick, ticks.Record) {
	run, err := j.book.Take(ctx, rec, ticks.Tick{
		Due: due, Next: j.schedule.Next(due), Until: until,
	})
	if err != nil {
		return refused(due, err), rec
	}
	j.compare(ctx, run.Before)
	j.compare(ctx, run.Record)
	t := Tick{
		Due: due, Outcome: OutcomeRan, Attempt: run.Record.Attempt,
		Missed: ticks.Count(j.schedule, j.book.Free(run.Before), due),
	}
	op := context.WithValue(run.Context, runKey{}, Run{
		Job: j.book.Name, Due: due, Attempt: t.Attempt, Missed: t.Missed,
	})
	t.Err = unwind.Then(func() error { return j.fn(op) }, run.End)
	if run.Record.Outcome == ticks.Cut {
		t.Outcome, t.Left = OutcomeCut, j.book.Attempts-t.Attempt
	}
	return t, run.Record
}

// nothingDue is the tick of a call that comes too late, or that no tick was due for.
func (j *Job) nothingDue(rec ticks.Record) Tick {
	free := j.book.Free(rec)
	if due := ticks.Last(j.schedule, free, j.book.Now()); !due.IsZero() {
		return Tick{
			Due: due, Outcome: OutcomeMissed, Missed: ticks.Count(j.schedule, free, due),
		}
	}
	return Tick{Due: rec.Due, Outcome: OutcomeSkipped, Holder: rec.Holder()}
}

// tell tells OnTick. If the store was away, the job looks later for what was missed.
func (j *Job) tell(ctx context.Context, begun time.Time, t Tick) Tick {
	t.Job, t.Took = j.book.Name, time.Since(begun)
	if t.Outcome == OutcomeNotRun && ticks.Passing(t.Err) {
		j.lookLater()
	}
	j.node.onTick(ctx, t)
	return t
}

// looksBack reports whether the job looks for ticks of former times.
func (j *Job) looksBack() bool { return j.ifMissed || j.book.Attempts > 1 }

// catchUp looks, when a job begins on this node and when the store was away, for what no node has
// run or is running: the tick that was cut or whose node has died in the middle, and the last one
// that no node has taken. While the store is away it looks later.
func (j *Job) catchUp(ctx context.Context) {
	begun := time.Now()
	rec, err := j.book.Look(ctx, time.Time{})
	if err == nil && j.book.Attempts > 1 && rec.Unended() {
		j.makeUp(ctx, begun, rec, rec.Due)
		rec, err = j.book.Look(ctx, time.Time{})
	}
	switch {
	case ticks.Passing(err):
		j.lookLater()
		return
	case err != nil:
		j.tell(ctx, begun, Tick{Outcome: OutcomeNotRun, Err: err})
		return
	}
	now := j.book.Now()
	switch due := ticks.Last(j.schedule, j.book.Free(rec), now); {
	case !j.ifMissed:
	case rec.Version == 0, j.book.Changed(rec): // if it fails, it is known from its first tick on
		j.book.Introduce(ctx, j.schedule.Next(now))
	case !due.IsZero():
		j.makeUp(ctx, begun, rec, due)
	}
}

// lookIn is about how long after the store was away a job looks for what was missed.
const lookIn = 10 * time.Second

// lookLater looks in a while for what was missed, unless this will be done already.
func (j *Job) lookLater() {
	if !j.looksBack() || j.later.Swap(true) {
		return
	}
	go func() {
		if schedulers.Settle(lookIn/2+rand.N(lookIn)).Pass(j.node.ctx) == nil {
			j.later.Store(false) // first: a tick that is not run from now on may have come too late
			j.catchUp(j.node.ctx)
		}
	}()
}

// makeUp runs a tick that was due before, if no other node does. It may be begun for as long as a
// grace from now on.
func (j *Job) makeUp(ctx context.Context, begun time.Time, rec ticks.Record, due time.Time) {
	t, begun := j.finish(ctx, begun, rec, due, j.book.Now().Add(j.book.Grace))
	if t.Outcome != OutcomeSkipped {
		j.tell(ctx, begun, t)
	}
}

// Run is the run that a context belongs to.
type Run struct {
	// Job is the job's name.
	Job string
	// Due is when the tick was due. Together with Job it names the tick, on all nodes alike.
	Due time.Time
	// Attempt is which run of the tick it is, from 1 on: see [TakeOver].
	Attempt int
	// Missed is how many ticks before this one no node has taken, since the one on record.
	Missed int
}

type runKey struct{}

// Current is the run that ctx belongs to. Its zero value outside of a job's function.
func Current(ctx context.Context) Run {
	r, _ := ctx.Value(runKey{}).(Run)
	return r
}
