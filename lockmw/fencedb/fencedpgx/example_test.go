package fencedpgx_test

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/lockbeat/lockbeat/lockmw/fencedb"
	"github.com/lockbeat/lockbeat/lockmw/fencedb/fencedpgx"
)

// A repository takes what pgx's pool has, and gets a pool that carries fences.
// This one refuses writes without a lock.
func ExampleNew() {
	open := func(pool *pgxpool.Pool) *fencedpgx.Pool { // once
		return fencedpgx.New(pool, fencedb.Require())
	}
	debit := func(ctx context.Context, db *fencedpgx.Pool, id string, amount int64) error {
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance - $1 WHERE id = $2",
				amount, id)
			return err
		})
	}
	_, _ = open, debit
}

// By database/sql a transaction begins in one round trip, too.
func ExampleConnector() {
	open := func(pool *pgxpool.Pool) *sql.DB {
		return sql.OpenDB(fencedpgx.Connector(stdlib.GetPoolConnector(pool)))
	}
	_ = open
}
