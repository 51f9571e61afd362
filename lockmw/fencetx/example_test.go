package fencetx_test

import (
	"context"
	"database/sql"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/fencetx"
	"github.com/lockbeat/lockbeat/renewer"
)

// A holder of the account's lock that was paused for too long debits nothing.
func ExamplePostgreSQL() {
	debit := func(ctx context.Context, db *sql.DB, id string, amount int64) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := fencetx.PostgreSQL(ctx, tx, lockmw.Key("account", id)); err != nil {
			return err // the lock is lost, or not taken
		}
		_, err = tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - $1 WHERE id = $2",
			amount, id)
		if err != nil {
			return err
		}
		return tx.Commit()
	}
	handle := func(ctx context.Context, keeper *renewer.Keeper, db *sql.DB, id string) error {
		return lockmw.Run(ctx, keeper, lockmw.Key("account", id),
			func(ctx context.Context) error { return debit(ctx, db, id, 10) })
	}
	_ = handle
}
