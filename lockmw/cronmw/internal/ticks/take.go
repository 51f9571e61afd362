package ticks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/maxhold"
	"github.com/lockbeat/lockbeat/lockmw/internal/unwind"
	"github.com/lockbeat/lockbeat/renewer"
)

// Tick is one that a node wants to take.
type Tick struct {
	// Due is when it was due, and Next when the one after it is; zero if there is none.
	Due, Next time.Time
	// Until is when it is too late to begin it.
	Until time.Time
}

// ErrLate means that the time to begin the tick had passed before the lock was had.
var ErrLate = errors.New("lockbeat: late for the tick")

// ErrRecordAhead means that the record has a tick that is more than tolerance from now.
var ErrRecordAhead = errors.New("lockbeat: the record is of a tick to come")

// tolerance is more than the times by the store's clock differ that nodes compute.
const tolerance = time.Second

// standBy is how long a node waits for one that runs a tick which it may take over.
const standBy = 365 * 24 * time.Hour

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

// Take takes the tick if no node has: it gets the lock and writes on record that the run begins.
// rec is the record as it was seen last. While the store is away it is asked again, until it is too
// late. The error is [renewer.ErrHeld] if another node has the tick, or runs an earlier one;
// [ErrLate]; [ErrRecordAhead]; or that of the lock or the record. [Run.End] must be called
// otherwise.
func (b *Book) Take(ctx context.Context, rec Record, t Tick) (run *Run, err error) {
	held := false
	for again := range b.tries(ctx, t.Until) {
		if again > 0 { // the store was away, or a node that has the lock may write the record
			seen, away := b.Look(ctx, time.Time{})
			switch {
			case away != nil:
			case held && seen.Unended() && seen.Due.Before(t.Due):
				return nil, err // it still runs an earlier tick
			default:
				rec = seen
			}
		}
		wait, taken := b.plan(rec, t)
		if taken != nil {
			return nil, taken
		}
		run, err = b.enter(ctx, wait, t.Until, func(before Record) (Record, error) {
			return b.first(before, t)
		})
		held = errors.Is(err, renewer.ErrHeld) || errors.Is(err, renewer.ErrLost)
		if wait > 0 || !held && !Passing(err) {
			break
		}
	}
	return run, err
}

// plan is how long to wait in line for the lock, if the tick can be taken: 0 is not at all.
func (b *Book) plan(rec Record, t Tick) (wait time.Duration, err error) {
	switch {
	case rec.Due.Before(t.Due) && rec.Unended():
		return max(t.Due.Add(b.Wait).Sub(b.Now()), 0), nil
	case rec.Due.Before(t.Due):
		return 0, nil
	case rec.Due.Equal(t.Due) && rec.Unended() && rec.Attempt < b.Attempts:
		return standBy, nil // it may be taken over
	}
	refusal := &renewer.Error{
		Op: "take the tick of", Name: b.key, Kind: renewer.ErrHeld, Holder: rec.Holder(),
	}
	if until := rec.Due.Sub(b.Now()); until > tolerance {
		refusal.Kind = ErrRecordAhead
		refusal.Err = fmt.Errorf("that of %s, %v from now by the store's clock, which was put "+
			"back: only later ones are run. If the clock was wrong before, delete the record: in "+
			"Redis the key lockbeat:{%s}:record, or with your own prefix",
			rec.Due.UTC().Format(time.RFC3339), until.Round(time.Millisecond), b.key)
	}
	return 0, refusal
}

// first is the record of a run that begins now.
func (b *Book) first(before Record, t Tick) (Record, error) {
	r := Record{
		Known: before.Known, Due: t.Due, Next: t.Next, Begun: b.Now(), Attempt: 1,
		Schedule: b.Schedule, Node: short(b.keeper.Config().Node), PID: os.Getpid(),
	}
	_, err := b.plan(before, t)
	switch {
	case err != nil:
	case before.Due.Equal(t.Due): // its node has died, or it was cut
		r.Attempt += before.Attempt
	case !b.Now().Before(t.Until):
		err = ErrLate
	}
	return r, err
}

// enter gets the lock, for which it waits in line, and writes the record after the one before.
func (b *Book) enter(
	ctx context.Context, wait time.Duration, until time.Time, after func(Record) (Record, error),
) (*Run, error) {
	op, exit, err := b.Lock(ctx, lockmw.Wait(wait), lockmw.Within(until.Sub(b.Now())))
	if err != nil {
		return nil, err
	}
	r := &Run{Context: op, book: b, fence: lockmw.FenceOf(op, b.key), exit: exit}
	if err := r.begin(until, after); err != nil {
		return nil, exit(err)
	}
	return r, nil
}

// Lock gets the job's lock, as [lockmw.Enter] does.
func (b *Book) Lock(
	ctx context.Context, opts ...lockmw.Option,
) (context.Context, func(error) error, error) {
	opts = append(opts, lockmw.Operation(b.Name), lockmw.Strict())
	return lockmw.Enter(ctx, b.keeper, b.key,
		maxhold.AddTo(opts, b.MaxHold, lockmw.MaxHold)...)
}

// begin reads the record, which from now on no earlier holder of the lock can write, and writes the
// one after it.
func (r *Run) begin(until time.Time, after func(Record) (Record, error)) (err error) {
	term := renewer.Term{Name: r.book.key, Fence: r.fence, TTL: Record{}.keep(r.book.Grace)}
	r.Before, r.seq, err = r.book.see(r.Context, until, func() (renewer.Seen, error) {
		return r.book.keeper.Prepare(r.Context, term)
	})
	if err == nil {
		r.Record, err = after(r.Before)
	}
	if err != nil {
		return err
	}
	r.since = time.Now()
	return r.write(r.Context, until)
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
	if errors.Is(err, unwind.Err) {
		until = time.Time{}
	}
	r.Record.Outcome = r.outcome(err)
	r.Record.Ended = r.Record.Begun.Add(time.Since(r.since))
	// If it can't be written, the next tick's node takes this one for one whose node died.
	_ = r.write(context.WithoutCancel(r.Context), until)
	return r.exit(err)
}

// outcome is what has become of the run. Work that may be taken over was cut if it is not done for
// a reason that is not its own. A context that ends just before an error of the work's own is
// taken for its reason: at worst the work is done once more.
func (r *Run) outcome(err error) Outcome {
	unwound := errors.Is(err, unwind.Err)
	switch {
	case r.book.Attempts > 1 && (unwound || err != nil && r.Context.Err() != nil):
		return Cut
	case unwound:
		return Panicked
	case errors.Is(context.Cause(r.Context), renewer.ErrLost):
		return Lost
	case err != nil:
		return Failed
	default:
		return Succeeded
	}
}

// Introduce writes on record that the job is known from now on by this schedule, unless it is. next
// is its next tick. The latest tick taken stays. Nothing is written if another node has the lock,
// which does the same.
func (b *Book) Introduce(ctx context.Context, next time.Time) {
	run, err := b.enter(ctx, 0, next, func(before Record) (Record, error) {
		if before.Version == 0 || b.Changed(before) {
			before.Known, before.Next, before.Schedule = b.Now(), next, b.Schedule
		}
		return before, nil
	})
	if err == nil {
		_ = run.exit(nil)
	}
}
