package gocronmw

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockbeat/lockbeat/lockmw/internal/ticks"
	"github.com/lockbeat/lockbeat/renewer"
)

// ErrLate is what gocron.AfterLockError is told when a job is not run
// since its tick had been due for longer than a quarter of HoldAtLeast:
// the process was paused, and another node has most likely run it.
var ErrLate = errors.New("lockbeat: late for the tick")

// NewJob is s.NewJob with l as the job's locker, for a job whose name is its own:
// gocron.WithName. The job is refused, with [renewer.ErrConfig], if the locker has
// one of this name already, if its ticks come as close together as HoldAtLeast is
// long, or if each node would draw its own (gocron.DurationRandomJob). A late tick
// is not run: [ErrLate]. Other errors of the lock are as with [Locker.Lock].
//
// The ticks of a gocron.DurationJob count from each node's start, unless gocron.WithStartAt
// names a time that all have in common: take an [Elector] where that can't be. A job with
// gocron.WithCronImplementation is checked by its crontab, as if that were a usual one.
func (l *Locker) NewJob(
	s gocron.Scheduler, definition gocron.JobDefinition, task gocron.Task,
	options ...gocron.JobOption,
) (gocron.Job, error) {
	g := &gate{locker: l, settled: make(chan struct{})}
	defer close(g.settled) // a scheduler that runs may call at once
	job, err := s.NewJob(definition, task,
		append(slices.Clip(options), gocron.WithDistributedJobLocker(g))...)
	if err != nil {
		return nil, err
	}
	if g.hold, g.refused = l.admit(job); g.refused != nil {
		return nil, errors.Join(fmt.Errorf("job %q: %w", job.Name(), g.refused),
			s.RemoveJob(job.ID()))
	}
	g.job = job
	return job, nil
}

// Forget makes a name free for another job. The old one must have been removed from its scheduler.
func (l *Locker) Forget(job string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.names, job)
}

// admit enters a job, and settles how long its ticks are held.
func (l *Locker) admit(job gocron.Job) (ticks.Hold, error) {
	shortest, err := shortest(job.Schedule())
	if err != nil {
		return ticks.Hold{}, err
	}
	hold, err := ticks.NewHold(l.least, shortest)
	if err != nil {
		return ticks.Hold{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.names[job.Name()] {
		return ticks.Hold{}, fmt.Errorf("%w: the locker has a job of this name already, and the "+
			"two would take each other's ticks: give each a name of its own by gocron.WithName, "+
			"or Forget the first", renewer.ErrConfig)
	}
	l.names[job.Name()] = true
	return hold, nil
}

// gate is the locker of one job.
type gate struct {
	locker  *Locker
	settled chan struct{} // closed when it is; the rest is written before
	job     gocron.Job
	hold    ticks.Hold
	refused error
}

// Lock is [Locker.Lock], unless the tick came too long ago.
func (g *gate) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	<-g.settled
	if g.refused != nil {
		return nil, g.refused
	}
	due, err := g.job.NextRun() // the one that is being run, until it has begun
	if err != nil {
		return nil, err
	}
	// One that is not due yet is not what is being run: that is a call of RunNow.
	if late := time.Since(due); !due.IsZero() && late >= g.hold.Grace {
		return nil, fmt.Errorf("%w of job %q: it was due %v ago", ErrLate, name,
			late.Round(time.Millisecond))
	}
	return g.locker.lock(ctx, name, g.hold)
}
