package renewer

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
)

// ErrNoRecord means that a record was not written, since its term is
// not there: it has lapsed, or the server has lost its data.
var ErrNoRecord = errors.New("lockbeat: the record has lapsed")

// Prepare begins the term of a holder of the lock, so that it may write the record of its name,
// and reads that: see [Recorder]. It asks once and takes at most [Config.RequestTimeout]; it may
// be called concurrently, and after [Keeper.Shutdown] too.
//
// The error is a *[LostError] if a holder with a higher token has prepared before, so that the
// lock can't be the caller's any more. Otherwise it is an *[Error] whose kind errors.Is tells:
// [ErrUnavailable]; ctx's own error; [ErrName]; or [ErrConfig] if the store keeps no records, the
// token is not positive, or the TTL is below 1 ms.
func (k *Keeper) Prepare(ctx context.Context, term Term) (Seen, error) {
	q := question{k: k, op: "prepare the record of", name: term.Name, fence: term.Fence}
	store, err := q.recorder(true, term.TTL.Milliseconds())
	if err != nil {
		return Seen{}, err
	}
	if term.Fence < 1 {
		return Seen{}, q.fail(ErrConfig, errors.New(
			"it has no fencing token: only who has the lock may prepare; others read"))
	}
	return q.see(ctx, func(ctx context.Context) []Seen {
		return store.Prepare(ctx, []Term{term})
	})
}

// Read reads the record of a name, with or without the lock: see [Recorder].
// It changes nothing, asks once and takes at most [Config.RequestTimeout];
// it may be called concurrently, and after [Keeper.Shutdown] too.
//
// The error is an *[Error] whose kind errors.Is tells: [ErrUnavailable]; ctx's own error;
// [ErrName]; or [ErrConfig] if the store keeps no records.
func (k *Keeper) Read(ctx context.Context, name string) (Seen, error) {
	q := question{k: k, op: "read the record of", name: name}
	store, err := q.recorder(false, 0)
	if err != nil {
		return Seen{}, err
	}
	return q.see(ctx, func(ctx context.Context) []Seen {
		return store.Read(ctx, []string{name})
	})
}

// Write replaces the record of a name, for the holder whose term it is:
// see [Recorder]. It asks once and takes at most [Config.RequestTimeout];
// it may be called concurrently, and after [Keeper.Shutdown] too.
//
// The error is a *[LostError] if a holder with a higher token has prepared since. Otherwise
// it is an *[Error] whose kind errors.Is tells. Nothing was written with [ErrNoRecord],
// [ErrName] and [ErrConfig]: the store keeps no records, the TTL is below 1 ms, or the
// holder has written this Seq, or a higher one, before. With [ErrUnavailable], and with
// ctx's own error, it is not known: the same write may be repeated.
func (k *Keeper) Write(ctx context.Context, record Record) error {
	q := question{k: k, op: "write the record of", name: record.Name, fence: record.Fence}
	store, err := q.recorder(!record.Erase, record.TTL.Milliseconds())
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, k.cfg.RequestTimeout)
	defer cancel()
	a := asking.AnswerTo(store.Write(limited, []Record{record}), 0, 1)
	return q.verdict(ctx, a.Status, a.Err)
}

// CheckRecords returns nil if the keeper's store keeps records, as a [Recorder], and otherwise an
// error of kind [ErrConfig] that says what to take. It asks the store nothing, and may be called
// concurrently.
func (k *Keeper) CheckRecords() error {
	if _, err := k.recorder(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}

// MaxRecord returns how many bytes of data the keeper's store takes in a record; 0 if it sets no
// limit. A [Recorder] that sets one says so by a method of the same name and type. It asks the
// store nothing, and may be called concurrently.
func (k *Keeper) MaxRecord() int {
	if store, ok := k.store.(interface{ MaxRecord() int }); ok {
		return store.MaxRecord()
	}
	return 0
}

func (k *Keeper) recorder() (Recorder, error) {
	if store, ok := k.store.(Recorder); ok {
		return store, nil
	}
	return nil, fmt.Errorf("a %T keeps no records: take a keeper on a store that is a "+
		"renewer.Recorder, such as redisstore "+
		"on one deployment", k.store)
}

// question is one to a Recorder.
type question struct {
	k        *Keeper
	op, name string
	fence    int64
}

// errTerm is why.
var errTerm = errors.New("a later holder has prepared to write its record")

// errCount is what a store is told of that has broken its contract.
var errCount = errors.New("the store gave another number of answers than there were questions")

// see asks for one record.
func (q question) see(ctx context.Context, ask func(context.Context) []Seen) (Seen, error) {
	limited, cancel := context.WithTimeout(ctx, q.k.cfg.RequestTimeout)
	defer cancel()
	all := ask(limited)
	if len(all) != 1 {
		all = []Seen{{Err: errCount}}
	}
	if all[0].Status == StatusUnknown && all[0].Err == nil {
		all[0].Err = errors.New("the store gave no reason")
	}
	if err := q.verdict(ctx, all[0].Status, all[0].Err); err != nil {
		return Seen{}, err
	}
	return all[0], nil
}

func (q question) fail(kind, cause error) error {
	return &Error{Op: q.op, Name: q.name, Kind: kind, Err: cause}
}

// recorder is the store, if it can be asked. ms is the TTL, which matters to those who write.
func (q question) recorder(writes bool, ms int64) (Recorder, error) {
	if fault := nameFault(q.name); fault != nil {
		return nil, q.fail(ErrName, fault)
	}
	store, err := q.k.recorder()
	switch {
	case err != nil:
		return nil, q.fail(ErrConfig, err)
	case writes && ms < 1:
		return nil, q.fail(ErrConfig,
			errors.New("its TTL is below 1ms: say how long the record is to live"))
	}
	return store, nil
}

// verdict makes the caller's error of an answer.
func (q question) verdict(ctx context.Context, status Status, err error) error {
	switch status {
	case StatusHeld:
		return nil
	case StatusTaken:
		return &LostError{Name: q.name, Reason: ReasonTaken, Fence: q.fence, Err: errTerm}
	case StatusGone:
		return q.fail(ErrNoRecord, nil)
	case StatusBehind:
		return q.fail(ErrConfig,
			errors.New("the same holder has written this Seq, or a higher one, before"))
	case StatusUnknown:
	}
	if ctx.Err() == nil {
		return &Error{
			Op: q.op, Name: q.name, Kind: ErrUnavailable,
			Err: storeError{err}, Attempts: 1,
		}
	}
	cause := context.Cause(ctx)
	if cause == ctx.Err() { //nolint:errorlint // whether it is the same value, not the same kind
		cause = nil
	}
	return q.fail(ctx.Err(), cause)
}
