package once

import (
	"context"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// Recorder keeps the records of works. By default they lie beside the locks, in the keeper's store;
// [RecordIn] puts another recorder in its place, such as package sqlrecord.
//
// A record is written by the latest holder of the lock alone: a Recorder compares fencing tokens,
// as [store.Recorder] says, which also defines [store.Term], [store.Seen] and [store.Record]; it
// need not tell Seen.Now. Without Seen.TTL no caller pauses after another's
// failure: see [RetryIn]. Its methods ask once, take a bounded time, and may be called
// concurrently.
//
// Their errors are [renewer.ErrLost] if a holder with a higher token has
// prepared; [store.ErrNoRecord] if the term is not there; [renewer.ErrUnavailable] if the answer
// is not known, so that the question is repeated, and with it [renewer.ErrRejected] if the same
// question will get the same answer; the context's own error if that has ended.
//
// One that takes no more than so many bytes in a record says so by a method MaxRecord() int:
// [MaxResult] can't be more.
type Recorder interface {
	// Read reads the record of a name, and changes nothing.
	Read(ctx context.Context, name string) (store.Seen, error)

	// Prepare begins the term of a holder of the lock, and reads the record of its name: from then
	// on a holder with a lower token can write nothing. It may be repeated. A Recorder may ignore
	// Term.Data: the holder then writes its first record by Write.
	Prepare(ctx context.Context, term store.Term) (store.Seen, error)

	// Write replaces or erases the record of a name, for the holder whose term it is. The same
	// write may be repeated.
	Write(ctx context.Context, record store.Record) error
}

// Transactional is a [Recorder] in the database that the work writes to. The work's effects and the
// record that it is done are in one transaction: both are there or neither is.
type Transactional interface {
	Recorder

	// Transact calls fn with a context that carries a new transaction. If fn returns a record, that
	// is written in the same transaction, on the conditions of Write, and the transaction is
	// committed. If fn returns an error, panics or calls runtime.Goexit, or if the record can't be
	// written, the transaction is rolled back. If none can be begun, fn is not called, which is no
	// attempt at the work: with [renewer.ErrUnavailable] it is asked for again. With [ErrConflict]
	// the transaction was rolled back since it was in conflict with another one, which is no
	// attempt either: Transact is called again. With an error marked by [Permanent] the work is
	// given up.
	//
	// The end of ctx does not end the transaction once it has begun: what decides is whether
	// another holder has prepared.
	//
	// With [renewer.ErrUnavailable] it is not known whether the transaction has been committed. A
	// Prepare that follows waits until that is decided, and shows it. With any other error,
	// fn's among them, it has been rolled back.
	Transact(ctx context.Context, fn func(context.Context) (store.Record, error)) error
}
