// Package fencetx has a database refuse what a late holder of a lock writes: one that was paused,
// and does not know yet that another has the lock. It is one call in the program's own transaction,
// over one table of fences.
//
//	_, err := lockmw.Run(ctx, keeper, name, func(ctx context.Context) error {
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
// [PostgreSQL], [MySQL] and [SQLite] take transactions of database/sql, [Pgx] those of pgx. The
// table is [PostgreSQLSchema], [MySQLSchema] or [SQLiteSchema]: apply it with your other
// migrations.
//
// # What it promises
//
// The authority is the table. The row of a name has the highest fencing token that has come with a
// transaction. The call writes the lock's token there, unless the row has a higher one, and the row
// stays locked until the transaction ends. So transactions under the same lock come one after the
// other, in the order of their tokens:
//
//	a later holder has committed      the call fails, with renewer.ErrLost
//	a later holder's is under way     the call waits for its end; if it commits, as above
//	an earlier holder's is under way  the call waits for its end, and then succeeds
//
// A transaction that was paused behind the call keeps the later holder waiting. Have the server end
// it: idle_in_transaction_session_timeout in PostgreSQL, idle_transaction_timeout in MariaDB. The
// call waits for as long as ctx lives and the database allows: lock_timeout,
// innodb_lock_wait_timeout, and in SQLite PRAGMA busy_timeout, which is 0 unless you set it.
//
// # Call it first
//
// What the transaction has read before the call is not protected: the holder before may have
// committed since. By isolation level:
//
//	READ COMMITTED                what was read before may be old; nothing says so
//	PostgreSQL's stricter levels  the call fails: a conflict, 40001
//	MySQL's REPEATABLE READ       what is read after may be old, too; nothing says so
//	SQLite                        the call fails: a conflict, SQLITE_BUSY
//
// Called first, it protects all that follows, at each level. In PostgreSQL above READ COMMITTED a
// call that has waited for a COMMIT fails with 40001, too. MySQL's START TRANSACTION WITH
// CONSISTENT SNAPSHOT is a read.
//
// # Errors
//
// Whatever the error is, roll back. In PostgreSQL it has undone the transaction: its COMMIT fails
// even if the program ignores the error, unless it goes back to a savepoint. MySQL, MariaDB and
// SQLite would commit.
//
//	renewer.ErrLost      a later holder has come: the lock is lost
//	a conflict           another transaction was in the way: run the transaction again
//	renewer.ErrConfig    ctx does not run under the lock, or the transaction has ended
//	renewer.ErrName      no lock can have such a name
//	renewer.ErrRejected  the table or a right is missing, all is read-only, or the database is of
//	                     another kind: the text says which
//	the context's own    ctx has ended; its cause is found, too
//
// errors.As finds the driver's error. A conflict has no other: SQLSTATE 40001, 40P01 or 55P03,
// MySQL's 1213, 1205 or 1020, SQLITE_BUSY. Your other statements and COMMIT may fail so, too.
//
// # What to watch out for
//
//   - A transaction without the call is not refused, and waits for no other. Nor is one that goes
//     back to a savepoint from before the call, without an error; to pgx, a transaction within
//     another one is a savepoint. Call it outside of them.
//   - The call needs a lock of this process: a token that another process has passed on
//     (lockmw.WithFence) does not say of which lock it is. A slot of a limit will not do, since
//     several have one at once.
//   - Give all names to one call: it takes them in one order, so that no two transactions wait for
//     each other in a circle. With PostgreSQL they cost one statement in all, else one each.
//   - Programs whose locks have different prefixes, or servers, and the same names need a database
//     or a schema each, or one would refuse the other.
//   - MySQL needs a table of InnoDB. A statement that commits by itself, such as ALTER TABLE, ends
//     the protection. MySQL itself is not tested, MariaDB is.
//   - Rows stay. Delete those that are older than anything that may still run under a lock, such as
//     30 days, by the statements that [PostgreSQLSchema], [MySQLSchema] and [SQLiteSchema] show.
package fencetx
