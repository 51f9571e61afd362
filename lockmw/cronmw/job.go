package cronmw

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/ticks"
	"github.com/lockbeat/lockbeat/renewer"
)

// Job is work that runs once a tick, on one node of many. Its methods may be called concurrently.
type Job struct {
	settings

	node     *Node
	name     string
	key      string
	schedule Schedule
	hold     ticks.Hold
	fn       func(context.Context) error
}

// check refuses what can never work, and settles how long ticks are held.
func (j *Job) check() error {
	if err := renewer.CheckName(j.runKey()); err != nil {
		return err
	}
	if j.schedule == nil || j.fn == nil {
		return fmt.Errorf("%w: it needs a schedule and a function", renewer.ErrConfig)
	}
	shortest, err := ticks.Shortest(j.schedule, time.Now())
	if err != nil {
		return err
	}
	j.hold, err = ticks.NewHold(j.least, shortest)
	return err
}

// runKey is the lock of a run that may be waited for, apart from that
// of the tick: "" with a name that makes no key.
func (j *Job) runKey() string { return lockmw.Key(ticks.OfJob, j.name, "run") }

// Name is the job's name.
func (j *Job) Name() string { return j.name }

// HoldAtLeast is for how long a tick is taken, however short the run.
func (j *Job) HoldAtLeast() time.Duration { return j.hold.Least }

// Run is [Job.Fire] with the context given to [New]. It makes a Job a cron.Job of robfig/cron.
func (j *Job) Run() { j.Fire(j.node.ctx) }

// Fire is called when the job's schedule has a tick, and returns when that has been run here,
// or found to be another node's. The run's context ends when ctx does, or when the lock is
// lost. [Config].OnTick is told the same, unless the run panics, which passes through.
func (j *Job) Fire(ctx context.Context) Tick {
	begun := time.Now()
	t := Tick{Job: j.name, Outcome: OutcomeLate}
	if !j.hold.Late(j.schedule, begun) {
		t = j.take(ctx)
	}
	t.Took = time.Since(begun)
	j.node.cfg.OnTick(ctx, t)
	return t
}

// take takes the tick, and runs it.
func (j *Job) take(ctx context.Context) Tick {
	fn := j.fn
	if j.wait > 0 {
		fn = func(context.Context) error { return nil } // for now only the tick is taken
	}
	ran, err := lockmw.Run(ctx, j.node.keeper, j.key, fn, lockmw.Refuse(),
		lockmw.Within(j.hold.Grace),
		lockmw.HoldAtLeast(j.hold.Least), lockmw.Operation(j.name))
	if ran && j.wait > 0 {
		// HoldAtLeast keeps the tick for this node, which alone waits for its turn to run.
		ran, err = lockmw.Run(ctx, j.node.keeper, j.runKey(), j.fn, lockmw.Wait(j.wait),
			lockmw.Operation(j.name))
	}
	if !ran {
		return j.refused(err)
	}
	return Tick{Job: j.name, Outcome: OutcomeRan, Err: err}
}
