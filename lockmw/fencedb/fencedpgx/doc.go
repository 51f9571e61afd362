// Package fencedpgx is package fencedb for pgx: a pool, and connections, whose
// transactions carry the fences of the locks that their context runs under. A
// late holder commits nothing.
//
//	pool, err := pgxpool.New(ctx, dsn)
//	db := fencedpgx.New(pool) // where your repositories take the pool
//
// Pool has pgxpool's methods, and so has what takes an interface, such as
// sqlc's DBTX. BEGIN and the check are one round trip, and Begin gives pgx's
// own Tx, for River's InsertTx and JobCompleteTx, too. The first transaction of
// a lease takes one round trip more. A statement outside of a transaction is
// sent together with its check, as one transaction to the server.
//
// Connector is for pgx by database/sql. Options are fencedb's.
//
// # What to watch out for
//
//   - What takes a *pgxpool.Pool, such as riverpgxv5.New, gets Pool.Pool, which is bare. So are
//     PgConn and Hijack.
//   - Statements of a Tx are not looked at: do not end one by COMMIT as text; one that
//     was begun outside of a lock carries no fence of it, and nobody is told.
//   - Behind pgbouncer in transaction mode use pgx.QueryExecModeExec or
//     QueryExecModeSimpleProtocol, as without this package.
package fencedpgx
