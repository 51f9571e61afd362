package once

import (
	"context"
	"errors"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Recorder keeps the records of works, by the rules of [store.Recorder] for one
// name, for [RecordIn]. It need not tell Seen.Now; without Seen.TTL no caller
// pauses after another's failure. Its methods ask once, take a bounded time,
// and may be called concurrently.
//
// Their errors are [renewer.ErrLost] if a holder with a higher token has
// prepared; [store.ErrNoRecord] if the term is not there;
// [renewer.ErrUnavailable] if the answer is not known, with
// [renewer.ErrRejected] too if the same question would get the same; the
// context's own.
//
// One that takes no more than so many bytes in a record says so by a method
// MaxRecord() int.
type Recorder interface {
	// Read reads the record of a name, and changes nothing.
	Read(ctx context.Context, name string) (store.Seen, error)

	// Prepare begins the term of a holder, and reads the record: from then on a
	// holder with a lower token can write nothing. It may be repeated, and may
	// ignore Term.Data.
	Prepare(ctx context.Context, term store.Term) (store.Seen, error)

	// Write replaces or erases the record, for the holder whose term it is. It
	// may be repeated.
	Write(ctx context.Context, record store.Record) error
}

// Transactional is a [Recorder] in the database that the work writes to, so
// that its effects and the record that it is done are in one transaction.
type Transactional interface {
	Recorder

	// Transact calls fn with a context that carries a new transaction, and
	// commits it with the record that fn returns, on the conditions of Write.
	// If fn fails, panics or calls runtime.Goexit, or the record can't be
	// written, it is rolled back. If it can't be begun, fn is not called. The
	// end of ctx does not end it once it has begun.
	//
	// With [renewer.ErrUnavailable] it is not known whether it was committed: a
	// Prepare that follows waits until that is decided. With any other error it
	// was rolled back: with [ErrConflict] Transact is called again, with one
	// marked by [Permanent] the work is given up.
	Transact(ctx context.Context, fn func(context.Context) (store.Record, error)) error
}

// Info is what the record of work says. Times are by this process's clock, made
// from the record's age. What is unknown is zero.
type Info struct {
	// Attempts counts those that were begun: 0 if there is no record.
	Attempts int
	// Done reports whether the work is done. If Err is nil then, Do returns the
	// result.
	Done bool
	// Err is the kind of error that Do returns from now on:
	// [ErrAttemptsExhausted], [ErrGivenUp] or [ErrResult]; nil if the work is
	// done, or can be.
	Err error
	// Last made the last of them.
	Last store.Holder
	// Written is when the last attempt began, failed or decided the work.
	Written time.Time
	// NotBefore is when the next attempt may begin: see [Retry].
	NotBefore time.Time
	// Until is when the record lapses: see [Keep].
	Until time.Time
	// Type is that of the result: its name, which may be cut, and a hash.
	Type string
	// Input is that of the attempt's call.
	Input string
	// Why is the last attempt's error ([TellErrors]), or why the result is not
	// stored.
	Why string
}

// Look returns what is on record of the work called name. It takes no lock: all
// of it may be past already. Of the options only [RecordIn] matters. The error
// is [ErrRecord], or one of Recorder.Read.
func Look[S ~string](
	ctx context.Context, k *renewer.Keeper, name S, opts ...Option,
) (Info, error) {
	set, err := checked("Look", k, string(name), opts)
	if err != nil {
		return Info{}, err
	}
	seen, err := set.recorder.Read(ctx, string(name))
	if err != nil {
		return Info{}, err
	}
	rec, err := decodeRecord(seen.Data)
	if err != nil {
		return Info{}, &Error{Kind: ErrRecord, Name: string(name), Err: err}
	}
	return rec.info(seen.TTL, time.Now()), nil
}

// info is what a record says that still lives for left.
func (r record) info(left time.Duration, now time.Time) Info {
	i := Info{
		Attempts: r.attempts, Done: r.state == done || r.state == bare, Last: r.last,
		Input: r.input, Type: r.details.typ,
	}
	switch r.state {
	case bare:
		i.Err = ErrResult
	case exhausted:
		i.Err = ErrAttemptsExhausted
	case givenUp:
		i.Err = ErrGivenUp
	}
	if r.state != done {
		i.Why = r.result
	}
	if left > 0 && r.state != "" {
		i.Until = now.Add(left)
		if r.details.kept >= left {
			i.Written = now.Add(left - r.details.kept)
		}
		if r.state == begun && r.details.pause > 0 && !i.Written.IsZero() {
			i.NotBefore = i.Written.Add(r.details.pause)
		}
	}
	return i
}

// Forget removes the record of the work called name, so that the next call is
// the first again. It takes the lock for that, and does not wait: if an attempt
// runs, the error is [renewer.ErrBusy]. One that has lost its lock, and still
// runs, can't be recorded afterwards. If there is no record the error is nil.
//
// Of the options only [RecordIn] matters. The error is [ErrRecord] if the
// record is not of this package's making, and otherwise one of lockmw.Do or of
// the recorder. It may be called again.
func Forget[S ~string](
	ctx context.Context, k *renewer.Keeper, name S, opts ...Option,
) error {
	set, err := checkedOutside(ctx, "Forget", k, string(name), opts)
	if err != nil {
		return err
	}
	c := &call{settings: set, keeper: k, name: string(name)}
	return lockmw.Run(ctx, k, name, c.remove, lockmw.Refuse(), lockmw.Operation("forget"))
}

// remove removes the record, under the lock.
func (c *call) remove(ctx context.Context) error {
	until := time.Now().Add(c.keeper.Config().RequestTimeout)
	p := &pen{c: c, fence: lockmw.FenceOf(ctx, c.name)}
	seen, err := p.look(ctx, until)
	if err != nil {
		return err
	}
	if _, err := decodeRecord(seen.Data); err != nil {
		return c.ended(ErrRecord, record{}, err)
	}
	r := p.next(record{})
	r.Erase = true
	err = p.put(ctx, r, until)
	if errors.Is(err, store.ErrNoRecord) { // by a write whose answer was lost
		return nil
	}
	return err
}
