package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockbeat/lockbeat/lockmw/fencedb"
	"github.com/lockbeat/lockbeat/lockmw/fencedb/fencedpgx"
	"github.com/lockbeat/lockbeat/lockmw/fencetx"
)

// accounts are in the database that DATABASE_URL names; nil without.
var accounts *fencedpgx.Pool

// openAccounts opens a database whose transactions carry the fence of the
// account's lock: one that was paused until another process has the lock is
// refused. Nor is one taken that is under no lock.
func openAccounts(ctx context.Context, url string) *fencedpgx.Pool {
	pool, err := pgxpool.New(ctx, url)
	must(err)
	_, err = pool.Exec(ctx, fencetx.PostgreSQLSchema+
		"CREATE TABLE IF NOT EXISTS accounts (id TEXT PRIMARY KEY, balance BIGINT NOT NULL)")
	must(err)
	return fencedpgx.New(pool, fencedb.Require())
}

// move is your code, too. It knows no lock and no fence.
func move(ctx context.Context, from, to string, amount int64) error {
	const add = "INSERT INTO accounts AS a VALUES ($1, $2) " +
		"ON CONFLICT (id) DO UPDATE SET balance = a.balance + $2"
	return pgx.BeginFunc(ctx, accounts, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, add, from, -amount); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, add, to, amount)
		return err
	})
}
