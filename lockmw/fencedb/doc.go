// Package fencedb opens databases whose transactions carry the fences of the
// locks that their context runs under, first and unasked: a holder that was
// paused, and has been overtaken, commits nothing. Handlers, repositories and
// what generates them stay as they are.
//
//	db := sql.OpenDB(fencedb.Connector(connector, fencedb.PostgreSQL, fencedb.Require()))
//	// Require: nothing else writes by this pool
//
//	err := lockmw.Run(ctx, keeper, lockmw.Key("account", id), func(ctx context.Context) error {
//		return accounts.Debit(ctx, id, 10) // a repository that uses db
//	})
//
// Apply the table of fences, fencetx.PostgreSQLSchema, with your migrations, by
// a database without this package.
// Package fencedpgx does the same for pgx, and saves a round trip for pgx by
// database/sql.
//
// BeginTx under locks of this process carries the fences of them all. Under no
// lock all is as without this package, and not a statement more is sent.
//
//	a later holder has come           BeginTx fails, with renewer.ErrLost
//	one is about to                   the same: it waits for transactions under way alone
//	an earlier holder's is under way  the lease's first BeginTx waits for its end
//	the same holder's is under way    they pass each other, except in SQLite
//
// Nothing is left for COMMIT to fail by. Another error of BeginTx is as those
// of package fencetx: a conflict, which may be run again, or
// renewer.ErrRejected, which says what the database lacks. Once the function
// was told of its loss, its context has ended, and database/sql answers by the
// context's error, before it asks this package.
//
// # Statements
//
//	under a lock                            is
//	a query that surely writes nothing      sent as it is, without a fence; but the lease's first
//	                                        has former holders refused from then on
//	another statement in no transaction     run in one of its own, or refused: [RefuseOutside]
//	BEGIN or SAVEPOINT as text, in none;    refused: use BeginTx
//	MySQL's LOCK TABLES, SET autocommit
//	COMMIT or ROLLBACK as text in BeginTx's refused: use Commit, Rollback
//	ROLLBACK TO a savepoint                 as it is: the fence stays
//	several statements as one text          as one, or refused if one of them begins or ends a
//	                                        transaction
//	MySQL's DDL in a transaction            refused, as all that may commit but a lone CALL
//	MySQL's DDL in none                     checked as it begins: no transaction can hold it
//	VACUUM, CREATE INDEX CONCURRENTLY       refused by the database: run it under no lock
//	a transaction that is read-only         as it is: without a fence; what may write is refused
//	                                        by the database, and with SQLite by this package; by
//	                                        pgx's Tx not behind SET TRANSACTION READ WRITE
//	behind an error, or a procedure of      refused, until Rollback: it would be committed at once
//	MySQL, that has ended the transaction
//	PostgreSQL's CALL and DO                as other statements: to commit in one is an error
//	LISTEN, SET, PRAGMA                     as it is
//
// A query surely writes nothing if it is a SELECT without INTO and FOR UPDATE,
// and, but for SQLite, with no other functions than common ones of SQL.
//
// # What to watch out for
//
//   - Only what is given the function's context carries a fence: db.Exec and db.Begin do not,
//     nor what goes on when the function has returned (context.WithoutCancel), nor what
//     lockmw.LocalShare admits. [Require] refuses all three.
//   - A transaction that was begun outside of the lock has no fence of it, and a slot of
//     a limit never has one. The keeper's observer is told, once.
//   - A holder that is paused in its transaction keeps its successor waiting: set
//     idle_in_transaction_session_timeout (PostgreSQL) or idle_transaction_timeout
//     (MariaDB).
//   - sql.Conn.Raw gives a type of this package: see [Unwrap].
//   - What is not in a statement's words is not looked for: a function may write, and what a
//     procedure of MySQL does behind its own COMMIT has no fence.
//   - By other drivers than pgx the names of locks are in the texts of statements, in
//     hexadecimal, and so in the server's logs.
//   - A lease's first query waits for former holders' transactions, as its first BeginTx does,
//     and fails if it may not wait; in SQLite both wait for all that write. MySQL's former
//     holders begin no new ones meanwhile, and may wait for their own: set
//     innodb_lock_wait_timeout.
//   - What a session says of the statement before (ROW_COUNT, changes, last_insert_rowid) it
//     says of the fence's; give a level by sql.TxOptions, not by SET TRANSACTION.
//   - Two pools of a program under one lock: begin by one first, before both have a
//     transaction at once.
//   - Programs whose locks have different prefixes or servers need a database or a schema
//     each, or [Only]; those of one lock have to find one table, by search_path or database.
package fencedb
