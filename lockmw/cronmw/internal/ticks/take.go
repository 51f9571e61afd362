package ticks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/lockmw/internal/records"
	"github.com/lockbeat/lockbeat/lockmw/internal/scope"
	"github.com/lockbeat/lockbeat/lockmw/internal/unwind"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// ErrLate means that the time to begin the tick had passed before the lock was
// had.
var ErrLate = errors.New("lockbeat: late for the tick")

// ErrRecordAhead means that the record has a tick that is more than tolerance
// from now.
var ErrRecordAhead = errors.New("lockbeat: the record is of a tick to come")

const (
	// tolerance is more than the times by the store's clock differ that nodes
	// compute.
	tolerance = time.Second
	// takeOverIn is how long a node waits in line to take a tick over: behind
	// others that only look whether there is one.
	takeOverIn = time.Second
	// minKeep is how long a record is kept at least.
	minKeep = 7 * 24 * time.Hour
)

// Run is a tick that this node runs, under the job's lock.
type Run struct {
	// Context is the run's: it ends when the lock is lost.
	Context context.Context
	// Before is the record as it was before, and Record as it was written last.
	Before, Record Record

	book  *Book
	fence int64
	seq   int64
	exit  func(error) error
}

// Take takes the tick that is due at an instant, if no node has and it can be
// begun until another: it gets the lock and writes on record that the run
// begins. rec is the record as it was seen last. While the store is away it is
// asked again, until it is too late. The error is [renewer.ErrBusy] if another
// node has the tick, or runs an earlier one; [ErrLate]; [ErrRecordAhead]; or
// that of the lock or the record. [Run.End] must be called otherwise.
func (b *Book) Take(ctx context.Context, rec Record, due, until time.Time) (run *Run, err error) {
	for again := range b.tries(ctx, until) {
		if again > 0 { // the store was away, or a node that has the lock may write the record
			if seen, away := b.Look(ctx, time.Time{}); away == nil {
				rec = seen
			}
		}
		follows, taken := b.plan(rec, due)
		switch {
		case taken != nil:
			return nil, taken
		case follows:
			return b.follow(ctx, due, until)
		}
		run, err = b.begin(ctx, 0, due, until)
		held := adapter.RefusalOf(err) == adapter.RefusalBusy || errors.Is(err, renewer.ErrLost)
		if held && rec.Unended() || !held && !Passing(err) {
			break
		}
	}
	return run, err
}

// follow stands by while another node runs the tick, and takes it over if that
// is cut. It waits for the lock to hear of the end, and takes it anew for the
// run: so one that only stood by has taken none in anybody's eyes.
func (b *Book) follow(ctx context.Context, due, until time.Time) (*Run, error) {
	for {
		if !lockmw.Held(ctx, b.key) {
			lease, err := b.keeper.Acquire(ctx, renewer.Request{
				Name: b.key, Operation: b.Settings.Operation, LongRunning: true, StandBy: true,
			})
			if err != nil {
				return nil, err
			}
			_ = lease.Release(ctx) // else it lapses
		}
		rec, err := b.Look(ctx, until)
		if err == nil {
			_, err = b.plan(rec, due)
		}
		if err != nil {
			return nil, err
		}
		run, err := b.begin(ctx, takeOverIn, due, until)
		if adapter.RefusalOf(err) != adapter.RefusalBusy {
			return run, err
		}
	}
}

// plan is whether the tick can be taken: follows if its run, which may be under
// way, can be taken over.
func (b *Book) plan(rec Record, due time.Time) (follows bool, err error) {
	switch {
	case rec.Due.Before(due):
		return false, nil
	case rec.Due.Equal(due) && rec.Unended() && rec.Attempt < b.Attempts:
		return true, nil
	}
	refusal := &renewer.Error{
		Op: "take the tick of", Name: b.key, Kind: renewer.ErrBusy, Holder: rec.Holder(),
	}
	if until := rec.Due.Sub(b.Now()); until > tolerance {
		refusal.Kind = ErrRecordAhead
		refusal.Err = fmt.Errorf("that of %s, %v from now by the store's clock, which was put "+
			"back: only later ones are run. If the clock was wrong before, delete the record: in "+
			"Redis the key lockbeat:{%s}:record, or with your own prefix",
			rec.Due.UTC().Format(time.RFC3339), until.Round(time.Millisecond), b.key)
	}
	return false, refusal
}

// begin gets the lock, for which it waits in line, reads the record, which from
// then on no earlier holder of the lock can write, and writes that the run has
// begun.
func (b *Book) begin(
	ctx context.Context, wait time.Duration, due, until time.Time,
) (*Run, error) {
	opt := option.Settings{
		Wait: wait, Within: max(until.Sub(b.Now()), 1), Expected: true, // another node has it
	}
	if wait <= 0 {
		opt.Contention = option.Refuses
	}
	op, exit, err := b.Lock(ctx, opt)
	if err != nil {
		return nil, err
	}
	r := &Run{Context: op, book: b, fence: lockmw.FenceOf(op, b.key), exit: exit}
	r.Record = Record{
		Due: due, Next: b.Schedule.Next(due), Attempt: 1,
		Node: short(b.keeper.Config().Node), PID: os.Getpid(),
	}
	term := store.Term{Name: b.key, Fence: r.fence, TTL: r.keep()}
	r.Before, r.seq, err = b.see(op, until, func() (store.Seen, error) {
		return records.Of(b.keeper).Prepare(op, term)
	})
	if err == nil {
		_, err = b.plan(r.Before, due)
	}
	switch {
	case err != nil:
	case r.Before.Due.Equal(due): // its node has died, or it was cut
		r.Record.Attempt += r.Before.Attempt
	case !b.Now().Before(until):
		err = ErrLate
	}
	r.Record.Done, r.Record.DueBy = r.Before.Done, r.Before.DueBy
	if err == nil {
		err = r.write(op, until)
	}
	if err != nil {
		return nil, exit(err)
	}
	return r, nil
}

// Lock gets the job's lock, as [scope.Enter] does.
func (b *Book) Lock(
	ctx context.Context, opt option.Settings,
) (context.Context, func(error) error, error) {
	opt.Strict, opt.MaxHold, opt.Operation = true, b.Settings.MaxHold, b.Settings.Operation
	return scope.Enter(ctx, b.keeper, b.lock(), opt)
}

// lock is the job's.
func (b *Book) lock() names.Set { return names.Of(names.Want{Name: b.key}) }

// Labelled runs the job's function on the context of its lock, or of a run.
func (b *Book) Labelled(op context.Context, fn func(context.Context) error) error {
	return scope.Labelled(b.keeper, b.lock(), b.Settings.Operation, fn)(op)
}

// keep is how long the record is kept: a week, or four times the grace or the
// time to the next tick.
func (r *Run) keep() time.Duration {
	ttl := max(minKeep, 4*r.book.Grace, 4*r.Record.Next.Sub(r.Record.Due))
	return ttl.Truncate(time.Millisecond)
}

// write writes the record.
func (r *Run) write(ctx context.Context, until time.Time) error {
	r.seq++
	rec := store.Record{
		Name: r.book.key, Fence: r.fence, Seq: r.seq, Data: r.Record.encode(), TTL: r.keep(),
	}
	return r.book.insist(ctx, until, func() error {
		return records.Of(r.book.keeper).Write(ctx, rec)
	})
}

// End writes that the run has ended, frees the lock, and returns the run's
// error with the loss of the lock joined to it, if it was lost. It writes for
// as long as no other node could have the lock; a run that has not returned is
// written once.
//
// Work that may be taken over was cut if it is not done for a reason that is
// not its own. A context that ends just before an error of the work's own is
// taken for its reason: at worst the work is done once more.
func (r *Run) End(err error) error {
	until, unwound := r.book.Now().Add(r.book.keeper.Config().TTL), errors.Is(err, unwind.Err)
	if unwound {
		until = time.Time{}
	}
	r.Record.Ended = r.book.Now()
	r.Record.Cut = r.book.Attempts > 1 && (unwound || err != nil && r.Context.Err() != nil)
	if err == nil {
		took := r.Record.Ended.Sub(r.Record.Due)
		r.Record.Done, r.Record.DueBy = r.Record.Ended, r.book.dueBy(r.Record.Ended, took)
	}
	r.book.latest.Store(&r.Record)
	// If it can't be written, the next tick's node takes this one for one whose
	// node died.
	_ = r.write(context.WithoutCancel(r.Context), until)
	return r.exit(err)
}
