package ticks

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/maxhold"
	"github.com/lockbeat/lockbeat/lockmw/internal/schedulers"
	"github.com/lockbeat/lockbeat/renewer"
)

// Book has the ticks of one job. Its fields are set before it is used; its methods may be called
// concurrently.
type Book struct {
	// Name is the job's.
	Name string
	// Grace is how long after it is due a tick may still be begun.
	Grace time.Duration
	// Wait is how long after it is due a tick may wait for an earlier one to end; 0: not at all.
	Wait time.Duration
	// Attempts is how many runs a tick may have if they are cut, or their nodes die; 0 is 1.
	Attempts int
	// Schedule is the [Fingerprint] of the job's; "" if there is none.
	Schedule string
	// MaxHold bounds how long a run keeps the job's lock.
	MaxHold maxhold.Setting
	// Clock is that of this node.
	Clock func() time.Time

	keeper *renewer.Keeper
	key    string       // of the job's lock, and of its record
	ahead  atomic.Int64 // by how much the store's clock was ahead of this node's when last seen
}

// NewBook returns the book of a job whose lock is k's, to read it.
func NewBook(k *renewer.Keeper, kind, name string) *Book {
	return &Book{Name: name, Clock: time.Now, keeper: k, key: lockmw.Key(kind, name)}
}

// Ahead is by how much the store's clock was ahead of this node's when it was last seen.
func (b *Book) Ahead() time.Duration { return time.Duration(b.ahead.Load()) }

// Now is the time by the store's clock, as far as it is known here.
func (b *Book) Now() time.Time { return b.Clock().Add(b.Ahead()) }

// Changed reports whether the record was written by another schedule than the job's.
func (b *Book) Changed(rec Record) bool {
	return b.Schedule != "" && rec.Schedule != "" && rec.Schedule != b.Schedule
}

// Free is [Record.Free] by the job's schedule: what an earlier one has on record tells nothing of
// the ticks of this one, so that they count from now on.
func (b *Book) Free(rec Record) time.Time {
	if b.Changed(rec) {
		return b.Now()
	}
	return rec.Free()
}

// SleepUntil lets time pass until an instant of the store's clock, unless ctx ends before: then the
// error is ctx's cause.
func (b *Book) SleepUntil(ctx context.Context, at time.Time) error {
	return schedulers.Settle(at.Sub(b.Now())).Pass(ctx)
}

// Look reads the job's record, and sets [Book.Now]. While the store is away it is asked again,
// until an instant of its clock.
func (b *Book) Look(ctx context.Context, until time.Time) (Record, error) {
	rec, _, err := b.see(ctx, until, func() (renewer.Seen, error) {
		return b.keeper.Read(ctx, b.key)
	})
	return rec, err
}

// see asks for the record, and returns its number too. A job without a record is known from now on.
func (b *Book) see(
	ctx context.Context, until time.Time, ask func() (renewer.Seen, error),
) (rec Record, seq int64, err error) {
	var seen renewer.Seen
	err = b.insist(ctx, until, func() error {
		seen, err = ask()
		return err
	})
	if err != nil {
		return rec, 0, err
	}
	b.ahead.Store(int64(seen.Now.Sub(b.Clock())))
	if seen.Data == "" {
		return Record{Known: seen.Now}, seen.Seq, nil
	}
	rec, err = decodeRecord(seen.Data)
	return rec, seen.Seq, err
}

// insist asks again while the store is away, until an instant of its clock.
func (b *Book) insist(ctx context.Context, until time.Time, ask func() error) (err error) {
	for range b.tries(ctx, until) {
		if err = ask(); !Passing(err) {
			break
		}
	}
	return err
}

// Passing reports whether err is of a store that may answer if it is asked again.
func Passing(err error) bool {
	return errors.Is(err, renewer.ErrUnavailable) && !errors.Is(err, renewer.ErrRejected)
}

const (
	firstPause = 10 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// tries has a first try, and after pauses another and another, until an instant of the store's
// clock. It counts from 0 on.
func (b *Book) tries(ctx context.Context, until time.Time) iter.Seq[int] {
	return func(yield func(int) bool) {
		pause := firstPause
		for n := 0; yield(n); n++ {
			left, jittered := until.Sub(b.Now()), pause/2+rand.N(pause)
			if left <= 0 || schedulers.Settle(min(left, jittered)).Pass(ctx) != nil {
				return
			}
			pause = min(2*pause, lastPause)
		}
	}
}
