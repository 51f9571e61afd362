package gocronmw

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/lockmw/internal/schedulers"
	"github.com/lockbeat/lockbeat/renewer"
)

// ErrLate is what gocron.AfterLockError is told when a job is not run
// since its tick had been due for longer than its grace.
var ErrLate = ticks.ErrLate

// NewJob is s.NewJob with l as the job's locker, for a job whose name is its own:
// gocron.WithName. The job is refused, with [renewer.ErrConfig], if the locker has
// one of this name already, if its ticks come closer together than Config.Grace is
// long, or if each node would draw its own (gocron.DurationRandomJob).
//
// gocron.AfterLockError is told why a tick is not run here: [renewer.ErrHeld] if it is another
// node's, or an earlier one is still being run; [ErrLate]; or why that is not known:
// [renewer.ErrUnavailable], [renewer.ErrName], [renewer.ErrShutdown], or the context's own error.
//
// The ticks of a gocron.DurationJob count from each node's start. Taken are the multiples of its
// duration by the store's clock, as with cronmw.Every, each by the first node that calls after it.
// A job with gocron.WithCronImplementation is checked by its crontab, as if that were a usual one.
func (l *Locker) NewJob(
	s gocron.Scheduler, definition gocron.JobDefinition, task gocron.Task,
	options ...gocron.JobOption,
) (gocron.Job, error) {
	g := &gate{settled: make(chan struct{})}
	defer close(g.settled) // a scheduler that runs may call at once
	job, err := s.NewJob(definition, task,
		append(slices.Clip(options), gocron.WithDistributedJobLocker(g))...)
	if err != nil {
		return nil, err
	}
	if g.refused = l.admit(g, job); g.refused != nil {
		return nil, errors.Join(fmt.Errorf("job %q: %w", job.Name(), g.refused),
			s.RemoveJob(job.ID()))
	}
	return job, nil
}

// Forget makes a name free for another job. The old one must have been removed from its scheduler.
func (l *Locker) Forget(job string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.names, job)
}

// admit enters a job, and opens its book.
func (l *Locker) admit(g *gate, job gocron.Job) error {
	shortest, err := shortest(job.Schedule())
	if err != nil {
		return err
	}
	grace, err := ticks.NewGrace(l.grace, shortest)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.names[job.Name()] {
		return fmt.Errorf("%w: the locker has a job of this name already, and the "+
			"two would take each other's ticks: give each a name of its own by gocron.WithName, "+
			"or Forget the first", renewer.ErrConfig)
	}
	l.names[job.Name()] = true
	g.job = job
	if d, ok := job.Schedule().(gocron.DurationJobSchedule); ok {
		g.every, grace = d.Duration, d.Duration
	}
	g.book = &ticks.Book{
		Keeper: l.keeper, Key: lockmw.Key(schedulers.OfLocker, job.Name()), Grace: grace,
		Options: []lockmw.Option{lockmw.Operation(job.Name()), lockmw.Strict()},
	}
	return nil
}
