// Package sqlrecord keeps the records of package once in the user's own SQL database, by
// database/sql. The work's effects and the record that it is done are in one transaction: both are
// committed or neither is.
//
//	recorder, err := sqlrecord.PostgreSQL(db)
//	name := lockmw.Key("invoice", order.ID)
//	invoice, err := once.Do(ctx, keeper, name, func(ctx context.Context) (Invoice, error) {
//		return bill(ctx, sqlrecord.Tx(ctx), order) // writes by that transaction only
//	}, once.RecordIn(recorder))
//
// The keeper holds the lock, on any store, a quorum too. The authority on what is done is the
// database. Recorder.Schema is the table that it needs; apply it with your other migrations.
//
// # What it promises
//
// The function runs in a transaction that is begun for it, [Tx]. When the function returns nil, the
// recorder writes into that transaction that the work is done, with the result, and commits. It
// writes only if no later holder of the lock has begun: it compares fencing tokens by one UPDATE of
// the record's row. So:
//
//	the function fails, panics, or its process dies    no effect, no record
//	the process dies between the effect and COMMIT     no effect, no record
//	a later attempt has begun when an earlier commits  the earlier one is rolled back, in whole
//	the answer to COMMIT is lost                       the row is asked, under its lock
//	a serialization failure, or a deadlock             no effect, no attempt; it is run again
//	the function ends the transaction itself           the work is given up at once
//
// # Two attempts at a time
//
// A holder that hangs in the middle of its transaction loses its lock, and the next one begins.
//
//   - PostgreSQL: up to its last statement, the UPDATE of the record's row, the earlier transaction
//     keeps no lock on that row. The later attempt raises the row's token, and the earlier one
//     finds it raised: its UPDATE changes no row, and it is rolled back. If it hangs between that
//     UPDATE and its COMMIT, the later attempt waits for the row, and then finds the work done, or
//     not. Set idle_in_transaction_session_timeout, so that the server ends such a transaction.
//     The same is so at the isolation levels REPEATABLE READ and SERIALIZABLE. Rows of yours that
//     the earlier one has written stay locked until it ends: a later attempt that writes the same
//     ones waits for that.
//   - SQLite has one writer. The transaction is that from its beginning, as by BEGIN IMMEDIATE, so
//     that no statement of the function fails since its snapshot is too old. The next attempt can't
//     begin until it has ended, and finds the work done, or not. Keep slow calls out of the
//     function, and set a busy timeout (PRAGMA busy_timeout) on every connection.
//
// # Conflicts
//
// A transaction that the database undoes since another one was in its way (PostgreSQL's SQLSTATE
// 40001 and 40P01; SQLITE_BUSY at COMMIT) is no attempt: the function is run again, in a new
// transaction. If that does not help for as long as once.Wait allows, or 100 times,
// the call ends with once.ErrConflict. A function that wraps the driver's error must keep it in the
// chain (%w), or the conflict is taken for a failure. At the stricter isolation levels transactions
// are in conflict more often. The level is that of the connections: with PostgreSQL a DSN sets it
// by default_transaction_isolation.
//
// # What to watch out for
//
//   - Only what is written by [Tx] is part of it. A message that is sent, or a row that is written
//     by another connection, is not undone.
//   - A COMMIT that the database refuses, as by a deferred constraint of yours, is an attempt that
//     has failed: no effect, no record, and it is tried again, up to once.MaxAttempts. The error is
//     renewer.ErrUnavailable, since the row is asked what came of it, and errors.As finds the
//     driver's.
//   - On PostgreSQL a function that ignores a statement which has failed is an attempt that has
//     failed: the server undoes the whole transaction.
//   - A driver of SQLite must end the transaction when COMMIT fails, as modernc.org/sqlite does.
//   - The function must not commit or roll back the transaction. If it does, the call ends with
//     renewer.ErrConfig and once.ErrGivenUp, and the work is not run again: what was committed
//     would be there twice. If it panics afterwards, or sends COMMIT as a statement, that is not
//     noticed; nor can it be put on record if the process dies before.
//   - The transaction occupies a connection of the pool for as long as the function runs.
//     A function that asks for another one, with SetMaxOpenConns(1), waits for itself. One that
//     waits for a lock keeps the connection from that lock's holder, and has the lock until before
//     COMMIT only: take it by once.Under, which waits before the transaction begins. The keeper's
//     observer is told, once, of a lock that is waited for in a transaction.
//   - A record lapses after once.Keep, by the database's clock, and its row then takes space until
//     Recorder.DeleteLapsed removes it: call it from a schedule.
//   - Let once.Keep be longer than an attempt takes: one whose row was removed is rolled back.
//   - Rows hold results in clear, as once.Codec encodes them.
package sqlrecord
