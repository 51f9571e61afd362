package ticks

import (
	"context"
	"errors"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/unwind"
	"github.com/lockbeat/lockbeat/renewer"
)

// Run is a tick that this node runs, under the job's lock.
type Run struct {
	// Context is the run's: it ends when the lock is lost.
	Context context.Context
	// Before is the record as it was before, and Record as it is while it runs.
	Before, Record Record

	book  *Book
	fence int64
	seq   int64
	since time.Time // when it began, by this node's clock
	exit  func(error) error
}

// prepare reads the record, which from now on no earlier holder of the lock can write.
func (r *Run) prepare(until time.Time) (err error) {
	term := renewer.Term{Name: r.book.key, Fence: r.fence, TTL: Record{}.keep(r.book.Grace)}
	r.Before, r.seq, err = r.book.see(r.Context, until, func() (renewer.Seen, error) {
		return r.book.keeper.Prepare(r.Context, term)
	})
	return err
}

// write writes the record.
func (r *Run) write(ctx context.Context, until time.Time) error {
	r.seq++
	rec := renewer.Record{
		Name: r.book.key, Fence: r.fence, Seq: r.seq, Data: r.Record.encode(),
		TTL: r.Record.keep(r.book.Grace),
	}
	return r.book.insist(ctx, until, func() error { return r.book.keeper.Write(ctx, rec) })
}

// End writes what has become of the run, frees the lock, and returns the run's error with the loss
// of the lock joined to it, if it was lost. It writes for as long as no other node could have the
// lock; a run that has not returned is written once.
func (r *Run) End(err error) error {
	until := r.book.Now().Add(r.book.keeper.Config().TTL)
	switch {
	case errors.Is(err, unwind.Err):
		r.Record.Outcome, until = Panicked, time.Time{}
	case errors.Is(context.Cause(r.Context), renewer.ErrLost):
		r.Record.Outcome = Lost
	case err != nil:
		r.Record.Outcome = Failed
	default:
		r.Record.Outcome = Succeeded
	}
	r.Record.Ended = r.Record.Begun.Add(time.Since(r.since))
	// If it can't be written, the next tick's node takes this one for one whose node died.
	_ = r.write(context.WithoutCancel(r.Context), until)
	return r.exit(err)
}
