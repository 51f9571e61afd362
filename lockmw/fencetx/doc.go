// Package fencetx has a database refuse what a late holder of a lock writes,
// which was paused. It is one call in the program's own transaction, over one
// table of fences. Where you open the database yourself, package fencedb does
// it unasked, over the same rows, and transactions of one holder do not wait
// for each other.
//
//	err := lockmw.Run(ctx, keeper, name, func(ctx context.Context) error {
//		tx, err := db.BeginTx(ctx, nil)
//		...
//		defer tx.Rollback()
//		if err := fencetx.PostgreSQL(ctx, tx, name); err != nil {
//			return err
//		}
//		... // read and write by tx
//		return tx.Commit()
//	})
//
// The table's row of a name has the highest fencing token that has come with a
// transaction. The call writes the lock's token there, unless the row has a
// higher one, and the row stays locked until the transaction ends. So
// transactions under the same lock come one after the other:
//
//	a later holder has committed      the call fails, with renewer.ErrLost
//	a later holder's is under way     the call waits for its end; if it commits, as above
//	an earlier holder's is under way  the call waits for its end, and then succeeds
//
// One that was paused behind the call keeps the later holder waiting: have the
// server end it, by idle_in_transaction_session_timeout (PostgreSQL) or
// idle_transaction_timeout (MariaDB). The call waits as long as ctx lives and
// lock_timeout, innodb_lock_wait_timeout or SQLite's busy_timeout allow.
//
// Call it first. What the transaction has read before may be old, as in MySQL's
// REPEATABLE READ is what it reads after; PostgreSQL's stricter levels and
// SQLite then refuse the call, by a conflict.
//
// # Errors
//
// Whatever the error is, roll back: MySQL, MariaDB and SQLite would commit.
//
//	renewer.ErrLost      a later holder has come: the lock is lost
//	a conflict           another transaction was in the way: run the transaction again
//	renewer.ErrConfig    ctx does not run under the lock, or the transaction has ended
//	renewer.ErrRejected  the table, a right or the kind of database: the text says which
//
// Or it is renewer.ErrName or the context's. errors.As finds the driver's. A
// conflict has no other: SQLSTATE 40001, 40P01 or 55P03, MySQL's 1213, 1205 or
// 1020, SQLITE_BUSY; COMMIT may fail so, too.
//
// # What to watch out for
//
//   - A transaction without the call is not refused, nor one that goes back to a savepoint
//     before it, as to pgx an inner transaction is.
//   - The call needs a lock of this process: no token of another, and no slot.
//   - A transaction of package fencedb has the fence: the call is one too many in it. By another
//     connection, beside an open one under the same lock, it waits for that one's end.
//   - Give all names to one call (lockmw.All), which takes them in one order.
//   - Programs whose locks have different prefixes or servers need a database or a schema each.
package fencetx
