package ticks

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/schedulers"
	"github.com/lockbeat/lockbeat/renewer"
)

// Book has the ticks of one job. Its methods may be called concurrently.
type Book struct {
	Keeper *renewer.Keeper
	// Key is the name of the job's lock, and of its record.
	Key string
	// Options are those of the lock.
	Options []lockmw.Option
	// Grace is how long after it is due a tick may still be begun.
	Grace time.Duration
	// Wait is how long after it is due a tick may wait for an earlier one to end; 0: not at all.
	Wait time.Duration
	// Attempts is how many runs a tick may have whose nodes die; 0 is 1.
	Attempts int
	// Clock is that of this node; nil: time.Now.
	Clock func() time.Time

	ahead atomic.Int64 // by how much the store's clock was ahead of this node's when last seen
}

// Local is the time by this node's clock.
func (b *Book) Local() time.Time {
	if b.Clock != nil {
		return b.Clock()
	}
	return time.Now()
}

// Ahead is by how much the store's clock was ahead of this node's when it was last seen.
func (b *Book) Ahead() time.Duration { return time.Duration(b.ahead.Load()) }

// Now is the time by the store's clock, as far as it is known here.
func (b *Book) Now() time.Time { return b.Local().Add(b.Ahead()) }

// Look reads the job's record, and sets [Book.Now]. While the store is away it is asked again,
// until an instant of its clock.
func (b *Book) Look(ctx context.Context, until time.Time) (rec Record, err error) {
	err = b.insist(ctx, until, func() error {
		seen, err := b.Keeper.Read(ctx, b.Key)
		if err != nil {
			return err
		}
		rec, err = b.read(seen)
		return err
	})
	return rec, err
}

// read reads what was seen.
func (b *Book) read(seen renewer.Seen) (Record, error) {
	b.ahead.Store(int64(seen.Now.Sub(b.Local())))
	return decodeRecord(seen.Data)
}

// Tick is one that a node wants to take.
type Tick struct {
	// Due is when it was due, and Next when the one after it is; zero if there is none.
	Due, Next time.Time
	// Until is when it is too late to begin it.
	Until time.Time
}

// ErrLate means that the time to begin the tick had passed before the lock was had.
var ErrLate = errors.New("lockbeat: late for the tick")

// standBy is how long a node waits for one that runs a tick which it may take over.
const standBy = 365 * 24 * time.Hour

// Take takes the tick if no node has: it gets the lock and writes on record that the run begins.
// rec is the record as it was seen last. While the store is away it is asked again, until it is too
// late. The error is [renewer.ErrHeld] if another node has the tick, or runs an earlier one;
// [ErrLate]; or that of the lock or the record. [Run.End] must be called otherwise.
func (b *Book) Take(ctx context.Context, rec Record, t Tick) (*Run, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		wait, err := b.plan(rec, t)
		if err != nil {
			return nil, err
		}
		run, err := b.enter(ctx, t, wait)
		held := errors.Is(err, renewer.ErrHeld) || errors.Is(err, renewer.ErrLost)
		if err == nil || wait > 0 || !held && !passing(err) {
			return run, err
		}
		// The store is away, or another node has the lock and may be about to write the record.
		if left := t.Until.Sub(b.Now()); left <= 0 || sleep(ctx, min(left, jitter(pause))) != nil {
			return nil, err
		}
		seen, away := b.Look(ctx, time.Time{})
		switch {
		case away != nil:
		case held && rec.Unended() && seen == rec:
			return nil, err // it still runs an earlier tick
		default:
			rec = seen
		}
	}
}

// plan is how long to wait in line for the lock: 0 is not at all.
func (b *Book) plan(rec Record, t Tick) (wait time.Duration, err error) {
	switch {
	case rec.Due.Before(t.Due) && rec.Unended():
		return max(t.Due.Add(b.Wait).Sub(b.Now()), 0), nil
	case rec.Due.Before(t.Due):
		return 0, nil
	case b.mayTakeOver(rec, t):
		return standBy, nil
	default:
		return 0, b.taken(rec)
	}
}

// mayTakeOver reports whether another run of the tick may follow if the node that runs it dies.
func (b *Book) mayTakeOver(rec Record, t Tick) bool {
	return rec.Due.Equal(t.Due) && rec.Unended() && rec.Attempt < b.Attempts
}

// taken is the error for a tick that is another node's.
func (b *Book) taken(rec Record) error {
	return &renewer.Error{
		Op: "take the tick of", Name: b.Key, Kind: renewer.ErrHeld, Holder: rec.Holder(),
	}
}

// enter gets the lock, and begins the run.
func (b *Book) enter(ctx context.Context, t Tick, wait time.Duration) (*Run, error) {
	op, exit, err := lockmw.Enter(ctx, b.Keeper, b.Key,
		append(slices.Clip(b.Options), lockmw.Wait(wait), lockmw.Within(t.Until.Sub(b.Now())))...)
	if err != nil {
		return nil, err
	}
	r := &Run{Context: op, book: b, fence: lockmw.FenceOf(op, b.Key), exit: exit}
	if err := r.begin(t); err != nil {
		return nil, exit(err)
	}
	return r, nil
}

// Introduce writes on record that the job is known from now on, unless it is. next is its next
// tick. Nothing is written if another node has the lock, which does the same.
func (b *Book) Introduce(ctx context.Context, next time.Time) error {
	op, exit, err := lockmw.Enter(ctx, b.Keeper, b.Key,
		append(slices.Clip(b.Options), lockmw.Refuse())...)
	if err != nil {
		return err
	}
	r := &Run{Context: op, book: b, fence: lockmw.FenceOf(op, b.Key)}
	if err = r.prepare(next); err == nil && r.Before.Known.IsZero() {
		r.Record = Record{Known: b.Now(), Next: next}
		err = r.write(op, next)
	}
	return exit(err)
}

const (
	firstPause = 10 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// insist asks again while the store is away, until an instant of its clock.
func (b *Book) insist(ctx context.Context, until time.Time, ask func() error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := ask()
		left := until.Sub(b.Now())
		if err == nil || !passing(err) || left <= 0 || sleep(ctx, min(left, jitter(pause))) != nil {
			return err
		}
	}
}

// passing reports whether the store may answer if it is asked again.
func passing(err error) bool {
	return errors.Is(err, renewer.ErrUnavailable) && !errors.Is(err, renewer.ErrRejected)
}

// SleepUntil lets time pass until an instant of the store's clock, unless ctx ends before: then the
// error is ctx's cause.
func (b *Book) SleepUntil(ctx context.Context, at time.Time) error {
	return sleep(ctx, at.Sub(b.Now()))
}

func sleep(ctx context.Context, d time.Duration) error {
	return schedulers.Settle(max(d, 0)).Pass(ctx)
}
