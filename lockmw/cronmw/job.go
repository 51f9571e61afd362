package cronmw

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/lockmw/internal/unwind"
	"github.com/lockbeat/lockbeat/renewer"
)

// Job is work that runs once a tick, on one node of many. Its methods may be
// called concurrently.
type Job struct {
	node     *Node
	book     *ticks.Book
	fn       func(context.Context) error
	ifMissed bool

	later  atomic.Bool // it looks later for what was missed
	shared shared
}

// Run is [Job.Fire] with the context given to [New]. It makes a Job a cron.Job
// of robfig/cron.
func (j *Job) Run() { j.Fire(j.node.ctx) }

// Fire is for the scheduler to call when a tick is due by this node's clock. By
// the store's that is the last one while its grace lasts, and otherwise the
// nearer of it and the next one, for which Fire waits. It returns when the tick
// has been run here, or is another node's. It ends with ctx, or with the
// context of [New].
//
// It returns what the keeper's Observer is told.
func (j *Job) Fire(ctx context.Context) renewer.Run {
	ctx, release := j.node.bounded(ctx)
	defer release()
	begun := time.Now()
	return j.tell(ctx, begun, j.fire(ctx, begun))
}

// RunNow runs the job's function now, under the job's lock, and takes no tick.
// It returns the function's error, joined with [renewer.ErrLost] if the lock
// was lost; [renewer.ErrBusy] if the job is being run, on any node.
func (j *Job) RunNow(ctx context.Context) error {
	ctx, release := j.node.bounded(ctx)
	defer release()
	op, exit, err := j.book.Lock(ctx, option.Settings{Contention: option.Refuses})
	if err != nil {
		return err
	}
	return unwind.Then(func() error { return j.book.Labelled(op, j.fn) }, exit)
}

// bounded returns a context that ends with the node's, too.
func (n *Node) bounded(ctx context.Context) (context.Context, func()) {
	if ctx == n.ctx {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(n.ctx, func() { cancel(context.Cause(n.ctx)) })
	return ctx, func() { stop(); cancel(nil) }
}

// fire finds the tick that a call is for, waits for it, and takes it.
func (j *Job) fire(ctx context.Context, begun time.Time) renewer.Run {
	for {
		due := j.due()
		rec, err := j.book.Look(ctx, due.Add(j.book.Grace))
		if err == nil {
			j.compare(ctx, rec)
			due = j.due() // by what is known now of the store's clock
		}
		now, until := j.book.Now(), due.Add(j.book.Grace)
		switch late := !now.Before(until); {
		case err != nil:
		case due.IsZero(), late && !rec.Due.Before(due):
			return renewer.Run{Due: rec.Due, Outcome: renewer.OutcomeSkipped, Holder: rec.Holder()}
		case late && !j.ifMissed:
			missed := ticks.Count(j.book.Schedule, j.book.Free(rec), due)
			return renewer.Run{Due: due, Outcome: renewer.OutcomeMissed, Missed: missed}
		case late:
			return j.take(ctx, begun, rec, due, now.Add(j.book.Grace))
		case !due.After(now):
			return j.take(ctx, begun, rec, due, until)
		default: // another look decides
			err = j.book.SleepUntil(ctx, due)
		}
		if err != nil {
			return renewer.Run{Due: due, Outcome: renewer.OutcomeNotRun, Err: err}
		}
	}
}

// due is the tick that a call is for which comes now; zero if there is none.
func (j *Job) due() time.Time {
	now, back := j.book.Now(), j.book.Grace
	next := j.book.Schedule.Next(now)
	if !next.IsZero() {
		back = max(back, next.Sub(now))
	}
	if last := ticks.Last(j.book.Schedule, now.Add(-back), now); !last.IsZero() {
		return last
	}
	return next
}

// take takes the tick, if it can be begun until an instant, and again if its
// run was cut: this node stands by then as the others do, since there may be no
// other. It returns the last run.
func (j *Job) take(
	ctx context.Context, begun time.Time, rec ticks.Record, due, until time.Time,
) renewer.Run {
	for {
		run, err := j.book.Take(ctx, rec, due, until)
		if err != nil {
			return refused(due, err)
		}
		j.compare(ctx, run.Record)
		t := j.run(ctx, begun, run)
		if t.Left == 0 || ctx.Err() != nil {
			return t
		}
		j.tell(ctx, begun, t)
		rec, until = run.Record, j.book.Now().Add(j.book.Grace)
	}
}

// run runs a tick that was taken. If it does not return, as by a panic, nobody
// gets to hear what has become of it but the observer, who is told here.
func (j *Job) run(ctx context.Context, begun time.Time, run *ticks.Run) renewer.Run {
	t := renewer.Run{
		Job: j.book.Name, Due: run.Record.Due, Attempt: run.Record.Attempt,
		Missed: ticks.Count(j.book.Schedule, j.book.Free(run.Before), run.Record.Due),
	}
	op := context.WithValue(run.Context, currentKey{}, t)
	_ = unwind.Then(func() error { return j.book.Labelled(op, j.fn) }, func(err error) error {
		t.Outcome, t.Err = renewer.OutcomeRan, run.End(err)
		if run.Record.Cut {
			t.Outcome, t.Left = renewer.OutcomeCut, j.book.Attempts-t.Attempt
		}
		if errors.Is(err, unwind.Err) {
			j.tell(ctx, begun, t)
		}
		return t.Err
	})
	return t
}

// refused is the tick of an error of the lock.
func refused(due time.Time, err error) renewer.Run {
	if errors.Is(err, ticks.ErrLate) {
		return renewer.Run{Due: due, Outcome: renewer.OutcomeMissed}
	}
	if adapter.RefusalOf(err) != adapter.RefusalBusy {
		return renewer.Run{Due: due, Outcome: renewer.OutcomeNotRun, Err: err}
	}
	t := renewer.Run{Due: due, Outcome: renewer.OutcomeSkipped}
	if e, ok := errors.AsType[*renewer.Error](err); ok {
		t.Holder = e.Holder
	}
	return t
}

// tell tells the observer. If the store was away, the job looks later for what
// was missed.
func (j *Job) tell(ctx context.Context, begun time.Time, t renewer.Run) renewer.Run {
	t.Job, t.Took = j.book.Name, time.Since(begun)
	t.LastSuccess, t.DueBy = j.book.Health()
	if t.Outcome == renewer.OutcomeNotRun && ticks.Passing(t.Err) {
		j.lookLater()
	}
	j.node.keeper.Observer().Ran(ctx, t)
	return t
}

type currentKey struct{}

// Current is the tick that ctx belongs to, by its Job, Due, Attempt and Missed;
// zero outside of a job's function, and by [Job.RunNow].
func Current(ctx context.Context) renewer.Run {
	t, _ := ctx.Value(currentKey{}).(renewer.Run)
	return t
}

// Option is for one job: lockmw.AnyOption, and those of this package.
type Option interface {
	ForTick(option.Settings) option.Settings
}

// own is an option of this package.
type own func(*Job)

// ForTick implements [Option].
func (own) ForTick(s option.Settings) option.Settings { return s }

// Grace is how long after it is due a tick may still be begun, by a node that
// is late or when the store is back: at most the shortest time between two
// ticks. In milliseconds. Default half of that time, at most 15 min.
func Grace(d time.Duration) Option { return own(func(j *Job) { j.book.Grace = d }) }

// RunIfMissed has the last tick that no node has taken run, once, however late:
// when the job begins on a node, by a node that calls late, and within some 15
// s of the store's return; none before the job's first run. It may run in a
// goroutine of its own, on the context of [New], where a panic ends the
// process.
func RunIfMissed() Option { return own(func(j *Job) { j.ifMissed = true }) }

// TakeOver has a tick whose run was cut run again on another node, until it has
// been begun n times in all; [Current] has the number. Give it only to work
// that can be done twice. A run is cut
//
//   - if its context ended, by a loss or with that of [New] or [Job.Fire], and it then returned
//     an error; or if it panicked or called runtime.Goexit: another node runs it at once;
//   - if its node died: another node runs it when the dead one's lock has lapsed.
//
// Nodes stand by for that: [Job.Fire] returns when the tick has been run, on
// whatever node. The last run stays cut: see [renewer.Run].Left. Default 1: the
// rest of such a tick is not run.
func TakeOver(n int) Option { return own(func(j *Job) { j.book.Attempts = n }) }
