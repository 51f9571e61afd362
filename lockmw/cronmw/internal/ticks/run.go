package ticks

import (
	"context"
	"errors"
	"os"
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

// begin writes that the run begins, unless the tick is another node's or it is too late.
func (r *Run) begin(t Tick) error {
	b := r.book
	if err := r.prepare(t.Until); err != nil {
		return err
	}
	r.Record = Record{
		Known: r.Before.Known, Due: t.Due, Next: t.Next, Begun: b.Now(), Attempt: 1,
		Node: short(b.Keeper.Config().Node), PID: os.Getpid(),
	}
	if r.Record.Known.IsZero() {
		r.Record.Known = b.Now()
	}
	switch {
	case b.mayTakeOver(r.Before, t):
		r.Record.Attempt = r.Before.Attempt + 1
	case !r.Before.Due.Before(t.Due):
		return b.taken(r.Before)
	case !b.Now().Before(t.Until):
		return ErrLate
	}
	r.since = time.Now()
	return r.write(r.Context, t.Until)
}

// prepare reads the record, which from now on no earlier holder of the lock can write.
func (r *Run) prepare(until time.Time) error {
	b := r.book
	return b.insist(r.Context, until, func() error {
		seen, err := b.Keeper.Prepare(r.Context,
			renewer.Term{Name: b.Key, Fence: r.fence, TTL: Record{}.keep(b.Grace)})
		if err != nil {
			return err
		}
		if seen.Fence == r.fence { // of an outer run
			r.seq = seen.Seq
		}
		r.Before, err = b.read(seen)
		return err
	})
}

// write writes the record.
func (r *Run) write(ctx context.Context, until time.Time) error {
	r.seq++
	rec := renewer.Record{
		Name: r.book.Key, Fence: r.fence, Seq: r.seq, Data: r.Record.encode(),
		TTL: r.Record.keep(r.book.Grace),
	}
	return r.book.insist(ctx, until, func() error { return r.book.Keeper.Write(ctx, rec) })
}

// End writes what has become of the run, frees the lock, and returns the run's error with the loss
// of the lock joined to it, if it was lost. It writes for as long as no other node could have the
// lock; a run that has not returned is written once.
func (r *Run) End(err error) error {
	until := r.book.Now().Add(r.book.Keeper.Config().TTL)
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
