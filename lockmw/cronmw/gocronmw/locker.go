package gocronmw

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/lockmw/internal/maxhold"
	"github.com/lockbeat/lockbeat/lockmw/internal/schedulers"
	"github.com/lockbeat/lockbeat/renewer"
)

// MaxGrace is the longest grace that a job has by default: see [Config].
const MaxGrace = ticks.MaxGrace

// ErrLate is what gocron.AfterLockError is told when a job is not run
// since its tick had been due for longer than its grace.
var ErrLate = ticks.ErrLate

// ErrRecordAhead is what gocron.AfterLockError is told when a job is not run since its record has a
// tick to come: the store's clock was put back. The error's text says which, and how to go on.
var ErrRecordAhead = ticks.ErrRecordAhead

var (
	_ gocron.Locker = (*gate)(nil)
	_ gocron.Lock   = held(nil)
)

// Config says how a [Locker] locks. Its zero value means the defaults.
type Config struct {
	// Grace is how long after it is due a tick may still be begun: by a node that is late, or
	// when the store is back. At most the shortest time between two ticks. Milliseconds;
	// fractions are cut off. Default half of that time, at most [MaxGrace] (15 minutes).
	Grace time.Duration

	// MaxHold bounds how long a run of a job keeps the job's lock, in place of
	// renewer.Config.MaxHold; at least one renewer.Config.Heartbeat. Negative: no bound. Default
	// 0: the keeper's bound.
	MaxHold time.Duration
}

// Locker has each tick of a job run on one node. Its methods may be called concurrently.
type Locker struct {
	books   *ticks.Books
	maxHold maxhold.Setting
}

// NewLocker returns a locker that takes locks of k. The error is [renewer.ErrConfig].
func NewLocker(k *renewer.Keeper, cfg Config) (*Locker, error) {
	books, err := ticks.NewBooks(k, schedulers.OfLocker, cfg.Grace)
	if err != nil {
		return nil, err
	}
	l := &Locker{books: books}
	if cfg.MaxHold != 0 {
		l.maxHold = maxhold.Of(cfg.MaxHold)
	}
	if err := l.maxHold.Check(k); err != nil {
		return nil, err
	}
	return l, nil
}

// NewJob is s.NewJob with l as the job's locker, for a job whose name is its own:
// gocron.WithName. The job is refused, with [renewer.ErrConfig], if the locker has
// one of this name already, if its ticks come closer together than Config.Grace is
// long, or if each node would draw its own (gocron.DurationRandomJob). A name that is too
// long is [renewer.ErrName].
//
// gocron.AfterLockError is told why a tick is not run here: [renewer.ErrHeld] if it is another
// node's, or an earlier one is still being run; [ErrLate]; [ErrRecordAhead]; or why that is not
// known: [renewer.ErrUnavailable], [renewer.ErrShutdown], or the context's own error.
//
// The ticks of a gocron.DurationJob count from each node's start. Taken are the multiples of its
// duration by the store's clock, as with cronmw.Every, each by the first node that calls after it.
// RunNow of the job that NewJob returns runs it under the lock, and takes no tick. Called shortly
// before a tick, within the grace, on a job that the scheduler lists, it takes that tick instead.
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
	return runnable{job, g}, nil
}

// admit opens the book of a job.
func (l *Locker) admit(g *gate, job gocron.Job) error {
	shortest, err := shortest(job.Schedule())
	if err != nil {
		return err
	}
	g.job, g.book = job, l.books.New(job.Name())
	g.book.MaxHold = l.maxHold
	if err := l.books.Open(g.book, shortest); err != nil {
		return err
	}
	if d, ok := job.Schedule().(gocron.DurationJobSchedule); ok {
		g.every, g.book.Grace = d.Duration, d.Duration
	}
	return nil
}

// Forget makes a name free for another job. The old one must have been removed from its scheduler.
func (l *Locker) Forget(job string) { l.books.Forget(job) }

// gate is the locker of one job.
type gate struct {
	settled chan struct{} // closed when it is; the rest is written before
	refused error
	job     gocron.Job
	every   time.Duration // of a job whose ticks are multiples of it; 0: gocron names them
	book    *ticks.Book
	now     calls
}

// Lock takes the tick that gocron runs, and waits for it if this node's clock is ahead.
func (g *gate) Lock(ctx context.Context, _ string) (gocron.Lock, error) {
	<-g.settled
	if g.refused != nil {
		return nil, g.refused
	}
	due, err := g.job.NextRun() // the one that is being run, until it has begun
	if err != nil {
		return nil, err
	}
	if g.isNow(due) {
		_, exit, err := g.book.Lock(ctx, lockmw.Refuse())
		return held(exit), err
	}
	rec, err := g.book.Look(ctx, due.Add(g.book.Grace))
	if err != nil {
		return nil, err
	}
	if g.every > 0 {
		due = g.book.Now().Truncate(g.every)
	}
	if err := g.book.SleepUntil(ctx, due); err != nil {
		return nil, err
	}
	run, err := g.book.Take(ctx, rec, ticks.Tick{Due: due, Until: due.Add(g.book.Grace)})
	if err != nil {
		return nil, err
	}
	return held(run.End), nil
}

// held is a lock being held.
type held func(error) error

// Unlock lets go of the lock. The error is [renewer.ErrLost] if it was lost while the job ran.
func (h held) Unlock(context.Context) error { return h(nil) }
