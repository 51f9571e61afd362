package once

import (
	"context"

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
