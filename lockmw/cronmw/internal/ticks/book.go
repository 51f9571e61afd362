package ticks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/lockmw/internal/records"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// ofJob is what a job's lock is called, before its name. It is no other kind of
// scheduled work's: see ofScheduler of package asynqmw. Do not change it: old
// and new programs would run the same tick twice.
const ofJob = "cron"

// Book has the ticks of one job. Its fields are set before it is used; its
// methods may be called concurrently.
type Book struct {
	// Name is the job's.
	Name string
	// Schedule is the job's.
	Schedule Schedule
	// Grace is how long after it is due a tick may still be begun.
	Grace time.Duration
	// Attempts is how many runs a tick may have if they are cut, or their nodes
	// die; 0 is 1.
	Attempts int
	// Settings has MaxHold and Operation, by default the job's name.
	Settings option.Settings

	keeper *renewer.Keeper
	key    string       // of the job's lock, and of its record
	ahead  atomic.Int64 // by how much the store's clock was ahead of this node's when last seen
	since  time.Time    // when the node got the job
	latest atomic.Pointer[Record]
}

// NewBook returns the book of a job whose lock is k's.
func NewBook(k *renewer.Keeper, name string) *Book {
	return &Book{Name: name, keeper: k, key: lockmw.Key(ofJob, name), since: time.Now()}
}

// Check refuses a book that can never work, and sets its defaults.
func (b *Book) Check() error {
	b.Settings.Operation = cmp.Or(b.Settings.Operation, b.Name)
	shortest, err := Shortest(b.Schedule, time.Now())
	if err != nil {
		return err
	}
	b.Grace, err = NewGrace(b.Grace, shortest)
	return errors.Join(err, renewer.CheckName(b.key), b.Settings.Check(b.keeper))
}

// Now is the time by the store's clock, as far as it is known here.
func (b *Book) Now() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }

// Changed reports whether the record was written by another schedule than the
// job's: one that has another tick after that one.
func (b *Book) Changed(rec Record) bool {
	return !rec.Due.IsZero() && !b.Schedule.Next(rec.Due).Equal(rec.Next)
}

// Free is since when a node could have taken a tick: those due until then were
// taken, or passed over while an earlier one ran. Of a job without a record
// that is now, and of one whose schedule was changed: what an earlier one has
// on record tells nothing of the ticks of this one.
func (b *Book) Free(rec Record) time.Time {
	switch {
	case rec.Due.IsZero(), b.Changed(rec):
		return b.Now()
	case rec.Ended.After(rec.Due):
		return rec.Ended
	default:
		return rec.Due
	}
}

// Health is when a run of the job last succeeded, on any node, as far as is
// known here, and by when the next one has to: two ticks after that, or after
// the node got the job. Both may be zero.
func (b *Book) Health() (done, dueBy time.Time) {
	if rec := b.latest.Load(); rec != nil && !rec.Done.IsZero() {
		return rec.Done, rec.DueBy
	}
	return time.Time{}, b.dueBy(b.since, b.Grace)
}

// dueBy is when a run has ended that begins two ticks from an instant and takes
// a while; zero if there are no two.
func (b *Book) dueBy(from time.Time, takes time.Duration) time.Time {
	for range 2 {
		if from = b.Schedule.Next(from); from.IsZero() {
			return from
		}
	}
	return from.Add(takes)
}

// SleepUntil lets time pass until an instant of the store's clock, unless ctx
// ends before: then the error is ctx's cause.
func (b *Book) SleepUntil(ctx context.Context, at time.Time) error {
	return Sleep(ctx, at.Sub(b.Now()))
}

// Sleep lets time pass, unless ctx ends before: then the error is ctx's cause.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx) // which may have ended in the same instant
}

// Look reads the job's record, and sets [Book.Now]. While the store is away it
// is asked again, until an instant of its clock.
func (b *Book) Look(ctx context.Context, until time.Time) (Record, error) {
	rec, _, err := b.see(ctx, until, func() (store.Seen, error) {
		return records.Of(b.keeper).Read(ctx, b.key)
	})
	return rec, err
}

// see asks for the record, and returns its number too.
func (b *Book) see(
	ctx context.Context, until time.Time, ask func() (store.Seen, error),
) (rec Record, seq int64, err error) {
	var seen store.Seen
	err = b.insist(ctx, until, func() error {
		seen, err = ask()
		return err
	})
	if err != nil {
		return rec, 0, err
	}
	b.ahead.Store(int64(time.Until(seen.Now)))
	if seen.Data != "" {
		rec, err = decodeRecord(seen.Data)
		b.latest.Store(&rec)
	}
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

// Passing reports whether err is of a store that may answer if it is asked
// again.
func Passing(err error) bool {
	return errors.Is(err, renewer.ErrUnavailable) && !errors.Is(err, renewer.ErrRejected)
}

const (
	firstPause = 10 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// tries has a first try, and after pauses another and another, until an instant
// of the store's clock. It counts from 0 on.
func (b *Book) tries(ctx context.Context, until time.Time) iter.Seq[int] {
	return func(yield func(int) bool) {
		pause := firstPause
		for n := 0; yield(n); n++ {
			left, jittered := until.Sub(b.Now()), pause/2+rand.N(pause)
			if left <= 0 || Sleep(ctx, min(left, jittered)) != nil {
				return
			}
			pause = min(2*pause, lastPause)
		}
	}
}

const (
	// A schedule's ticks are looked at until there were so many...
	lookTicks = 3000
	// ...or so much time has passed: four years have a 29th of February.
	lookAhead = 4 * 366 * 24 * time.Hour
	// This many gaps between ticks are tried before a schedule is held
	// to have none that nodes agree on: one may be where clocks are put
	// forward or back, where parsers of crontabs have their quirks.
	gapsTried = 3
)

// Shortest is the shortest time between two of the schedule's next ticks after
// from: some 3,000, which is days of a tick a minute and years of a tick a day.
// It is 0 if there is only one. A schedule without ticks is an error, and so is
// one whose ticks depend on when it is asked, as "every 30 s from now on" does:
// no two nodes would have the same.
func Shortest(s Schedule, from time.Time) (shortest time.Duration, err error) {
	tick := s.Next(from)
	if tick.IsZero() {
		return 0, fmt.Errorf("%w: the schedule has no tick", renewer.ErrConfig)
	}
	agreed := false
	for i := range lookTicks {
		next := s.Next(tick)
		if next.IsZero() || next.Sub(from) > lookAhead {
			break
		}
		gap := next.Sub(tick)
		if gap <= 0 {
			return 0, fmt.Errorf("%w: the schedule stands still: after %v it names %v as the "+
				"next tick", renewer.ErrConfig, tick, next)
		}
		agreed = agreed || s.Next(tick.Add(gap/2)).Equal(next)
		if i+1 == gapsTried && !agreed {
			return 0, fmt.Errorf("%w: the schedule's ticks depend on when it is asked, so that "+
				"no two nodes have the same ones: "+
				"take one that follows the clock, such as cronmw.Every(%v)", renewer.ErrConfig, gap)
		}
		if shortest == 0 || gap < shortest {
			shortest = gap
		}
		tick = next
	}
	return shortest, nil
}

// MaxGrace is the longest grace that a job has by default.
const MaxGrace = 15 * time.Minute

// NewGrace is how long after it is due a tick may still be begun: what the user
// wants, or if that is 0 half of the shortest time between two ticks, at most
// [MaxGrace]. shortest is 0 if that time is not known.
func NewGrace(want, shortest time.Duration) (time.Duration, error) {
	usual := MaxGrace
	if shortest > 0 {
		usual = min(shortest/2, MaxGrace)
	}
	grace := cmp.Or(want, usual).Truncate(time.Millisecond)
	switch {
	case want < 0:
		return 0, fmt.Errorf("%w: Grace is %v: it can't be negative; leave it 0 for the default "+
			"(half of the interval, at most %v)", renewer.ErrConfig, want, MaxGrace)
	case shortest > 0 && want > shortest:
		return 0, fmt.Errorf("%w: Grace is %v, but the schedule has ticks %v apart, so that a "+
			"tick would be begun after the next one: take at most that, or 0 for the default (%v)",
			renewer.ErrConfig, want, shortest, usual)
	case grace == 0:
		return 0, fmt.Errorf("%w: Grace comes to %v: it must be at least 1ms, and is by default "+
			"half of the time between two ticks", renewer.ErrConfig, grace)
	}
	return grace, nil
}
