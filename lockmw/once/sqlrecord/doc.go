// Package sqlrecord keeps the records of package once in the user's own SQL
// database, by database/sql. The work's effects and the record that it is done
// are in one transaction: both are committed or neither is.
//
//	recorder, err := sqlrecord.PostgreSQL(db)
//	name := lockmw.Key("invoice", order.ID)
//	invoice, err := once.Do(ctx, keeper, name, func(ctx context.Context) (Invoice, error) {
//		return bill(ctx, sqlrecord.Tx(ctx), order) // writes by that transaction only
//	}, once.RecordIn(recorder))
//
// The keeper holds the lock, on any store; the database is the authority on
// what is done. Recorder.Schema is the table that it needs.
//
// # What it promises
//
// When the function returns nil, the recorder writes into its transaction that
// the work is done, with the result, and commits, unless a later holder of the
// lock has begun: it compares fencing tokens.
//
//	the function fails, panics, or its process dies    no effect, no record
//	a later attempt has begun when an earlier commits  the earlier one is rolled back, in whole
//	the answer to COMMIT is lost                       the row is asked, under its lock
//	a serialization failure, or a deadlock             no effect, no attempt; it is run again
//	COMMIT is refused, as by a deferred constraint     no effect; a failed attempt
//	the function ends the transaction itself           the work is given up at once
//
// A holder that hangs in its transaction, and loses its lock, keeps its rows
// from the next attempt, and SQLite's only right to write; and, between its
// last statement and COMMIT, the record's. Set
// idle_in_transaction_session_timeout (PostgreSQL), so that the server ends
// such a transaction. For SQLite set PRAGMA busy_timeout on every connection,
// and keep slow calls out of the function.
//
// # What to watch out for
//
//   - Only what is written by [Tx] is part of it.
//   - A function that wraps the driver's error must keep it in the chain (%w), or a
//     conflict is taken for a failure. On PostgreSQL one that goes on after a statement has
//     failed is a failed attempt.
//   - The function must not commit or roll back. Sent as a statement, or before a panic,
//     that is not noticed, and the work is done again.
//   - The transaction occupies a connection of the pool. A function that asks for another one, with
//     SetMaxOpenConns(1), waits for itself. Take locks by once.Under, which waits before the
//     transaction begins: the keeper's observer is told, once, of one that is waited for inside.
//   - A record lapses after once.Keep, by the database's clock. Its row takes space until
//     Recorder.DeleteLapsed removes it: call it from a schedule. An attempt that takes longer than
//     Keep may be rolled back.
//   - Rows hold results in clear, as once.Codec encodes them.
package sqlrecord
