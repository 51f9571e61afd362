// Package records asks a store for records, one at a time, as packages once and
// cronmw do beside their locks.
package records

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Records are those of one store. Each method asks once and takes at most
// [renewer.Config.RequestTimeout]; it may be called concurrently, and after
// [renewer.Keeper.Shutdown] too.
//
// Their errors are a *[renewer.LostError] if a holder with a higher token has
// prepared; and otherwise a *[renewer.Error] whose kind errors.Is tells.
// Nothing was written with [store.ErrNoRecord], and with [renewer.ErrConfig]:
// the holder has written this Seq, or a higher one, before. With
// [renewer.ErrUnavailable], and with ctx's own error, it is not known: the same
// question may be repeated.
type Records struct{ keeper *renewer.Keeper }

// Of returns the records beside the locks of k.
func Of(k *renewer.Keeper) Records { return Records{k} }

// Check returns nil if the store keeps records, and otherwise an error of kind
// [renewer.ErrConfig] that says what to take. The methods that ask return that
// too. It asks nothing.
func (r Records) Check() error {
	_, err := r.store()
	return err
}

func (r Records) store() (store.Recorder, error) {
	recorder, ok := r.keeper.Store().(store.Recorder)
	if !ok {
		return nil, fmt.Errorf("%w: a %T keeps no records: take a keeper on a store that is a "+
			"store.Recorder, such as redisstore on one deployment", renewer.ErrConfig,
			r.keeper.Store())
	}
	return recorder, nil
}

// MaxRecord returns how many bytes of data the store takes in a record; 0 if it
// sets no limit.
func (r Records) MaxRecord() int {
	if limited, ok := r.keeper.Store().(interface{ MaxRecord() int }); ok {
		return limited.MaxRecord()
	}
	return 0
}

// Prepare begins the term of a holder of the lock, and reads the record: see
// [store.Recorder].
func (r Records) Prepare(ctx context.Context, term store.Term) (seen store.Seen, err error) {
	q := question{"prepare the record of", term.Name, term.Fence}
	err = r.ask(ctx, q, func(ctx context.Context, s store.Recorder) (store.Status, error) {
		seen = only(s.Prepare(ctx, []store.Term{term}), store.Seen{Err: errCount})
		return seen.Status, seen.Err
	})
	return seen, err
}

// Read reads the record of a name, with or without the lock. It changes
// nothing.
func (r Records) Read(ctx context.Context, name string) (seen store.Seen, err error) {
	q := question{"read the record of", name, 0}
	err = r.ask(ctx, q, func(ctx context.Context, s store.Recorder) (store.Status, error) {
		seen = only(s.Read(ctx, []string{name}), store.Seen{Err: errCount})
		return seen.Status, seen.Err
	})
	return seen, err
}

// Write replaces or erases the record of a name, for the holder whose term it
// is.
func (r Records) Write(ctx context.Context, record store.Record) error {
	q := question{"write the record of", record.Name, record.Fence}
	return r.ask(ctx, q, func(ctx context.Context, s store.Recorder) (store.Status, error) {
		a := only(s.Write(ctx, []store.Record{record}), store.Answer{Err: errCount})
		return a.Status, a.Err
	})
}

func (r Records) ask(
	ctx context.Context, q question,
	ask func(context.Context, store.Recorder) (store.Status, error),
) error {
	recorder, err := r.store()
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, r.keeper.Config().RequestTimeout)
	defer cancel()
	status, err := ask(limited, recorder)
	return q.verdict(ctx, status, err)
}

// only is the answer to one question, if the store has kept its contract;
// otherwise odd.
func only[A any](answers []A, odd A) A {
	if len(answers) != 1 {
		return odd
	}
	return answers[0]
}

// question is one to a store.
type question struct {
	op, name string
	fence    int64
}

var (
	errCount  = errors.New("the store gave another number of answers than there were questions")
	errReason = errors.New("the store gave no reason")
	errTerm   = errors.New("a later holder has prepared to write its record")
	errSeq    = errors.New("the same holder has written this Seq, or a higher one, before")
)

// verdict makes the caller's error of an answer.
func (q question) verdict(ctx context.Context, status store.Status, err error) error {
	fail := func(kind, cause error) error {
		return &renewer.Error{Op: q.op, Name: q.name, Kind: kind, Err: cause}
	}
	switch status { //nolint:exhaustive // of the others the store says why, or breaks its contract
	case store.StatusHeld:
		return nil
	case store.StatusTaken:
		return &renewer.LostError{
			Name: q.name, Reason: renewer.ReasonTaken, Fence: q.fence, Err: errTerm,
		}
	case store.StatusGone:
		return fail(store.ErrNoRecord, nil)
	case store.StatusBehind:
		return fail(renewer.ErrConfig, errSeq)
	}
	if ctx.Err() == nil {
		if err == nil {
			err = errReason
		}
		return &renewer.Error{
			Op: q.op, Name: q.name, Kind: renewer.ErrUnavailable, Err: storeError{err}, Attempts: 1,
		}
	}
	cause := context.Cause(ctx)
	if cause == ctx.Err() { //nolint:errorlint // whether it is the same value, not the same kind
		cause = nil
	}
	return fail(ctx.Err(), cause)
}

// storeError is a store's error in a chain. A context error in it is that of a
// question, not the caller's, and must not be taken for it.
type storeError struct{ error }

func (e storeError) Is(target error) bool {
	return target != context.Canceled && target != context.DeadlineExceeded &&
		errors.Is(e.error, target)
}

func (e storeError) As(target any) bool { return errors.As(e.error, target) }

// Nameless is its text without the names of locks: see renewer.ErrorText.
func (e storeError) Nameless() string { return renewer.ErrorText(e.error) }
