package once

import (
	"context"
	"errors"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Info is what the record of work says. Its times are by this process's clock, made from what the
// store says of the record's age. They are zero if unknown, as is what a record of an earlier
// version does not have.
type Info struct {
	// Attempts counts those that were begun: 0 if there is no record, since none has begun, or
	// [Keep] has passed.
	Attempts int
	// Done reports whether the work is done. If Err is nil then, Do returns the result.
	Done bool
	// Err is the kind of error that Do returns for the work from now on: [ErrAttemptsExhausted],
	// [ErrGivenUp], or [ErrResult] for work that is done without its result. It is nil if there is
	// none: an attempt runs, or has come to nothing and the next one may begin.
	Err error
	// Last made the last of them: node and process.
	Last store.Holder
	// Written is when the record was: when the last attempt began, failed or decided the work.
	Written time.Time
	// NotBefore is when the next attempt may begin, after one that has failed: see [Retry].
	NotBefore time.Time
	// Until is when the record lapses: see [Keep].
	Until time.Time
	// Type is that of the result: its name, which may be cut, and a hash.
	Type string
	// Input is that of the call whose attempt it was: see [Input].
	Input string
	// Why is the last attempt's error, if that call has told it by [TellErrors], or why the result
	// of work that is done is not stored.
	Why string
}

// Look returns what is on record of the work called name. It changes nothing and takes no lock, so
// that all of it may be past already. Of the options, that of [RecordIn] must be the one that Do is
// given; others change nothing. The error is [ErrRecord] if the record can't be read, and otherwise
// one of Recorder.Read. It may be called concurrently.
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

// Forget removes the record of the work called name, so that the next call is the first again:
// after what made all attempts fail is mended, or when work that is done has to be done anew. It
// takes the lock for that and does not wait for it: if an attempt runs, Forget changes nothing, and
// the error is [renewer.ErrBusy]. An attempt that has lost its lock, and still runs, can't put its
// result on record afterwards, and with a [Transactional] recorder it is rolled back. If there is
// no record the error is nil.
//
// Of the options, that of [RecordIn] must be the one that Do is given; others change nothing. The
// error is [ErrRecord] if the record is not of this package's making, which is not removed, and
// otherwise one of lockmw.Do or of the recorder's: with [renewer.ErrUnavailable] the record may be
// there or not, and Forget may be repeated. It may be called concurrently.
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
