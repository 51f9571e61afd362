package gocronmw

import (
	"context"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
)

var (
	_ gocron.Locker = (*gate)(nil)
	_ gocron.Lock   = held(nil)
)

// gate is the locker of one job.
type gate struct {
	settled chan struct{} // closed when it is; the rest is written before
	refused error
	job     gocron.Job
	every   time.Duration // of a job whose ticks are multiples of it; 0: gocron names them
	book    *ticks.Book
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
	if due.Sub(g.book.Clock()) > g.book.Grace { // a call of RunNow, which is no tick
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
