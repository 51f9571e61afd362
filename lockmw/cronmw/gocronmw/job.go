package gocronmw

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
)

// ErrLate is what gocron.AfterLockError is told when a job is not run
// since its tick had been due for longer than its grace.
var ErrLate = ticks.ErrLate

// NewJob is s.NewJob with l as the job's locker, for a job whose name is its own:
// gocron.WithName. The job is refused, with [renewer.ErrConfig], if the locker has
// one of this name already, if its ticks come closer together than Config.Grace is
// long, or if each node would draw its own (gocron.DurationRandomJob). A name that is too
// long is [renewer.ErrName].
//
// gocron.AfterLockError is told why a tick is not run here: [renewer.ErrHeld] if it is another
// node's, or an earlier one is still being run; [ErrLate]; or why that is not known:
// [renewer.ErrUnavailable], [renewer.ErrShutdown], or the context's own error.
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

// admit opens the book of a job.
func (l *Locker) admit(g *gate, job gocron.Job) error {
	shortest, err := shortest(job.Schedule())
	if err != nil {
		return err
	}
	g.job, g.book = job, l.books.New(job.Name())
	if err := l.books.Open(g.book, shortest); err != nil {
		return err
	}
	if d, ok := job.Schedule().(gocron.DurationJobSchedule); ok {
		g.every, g.book.Grace = d.Duration, d.Duration
	}
	return nil
}
