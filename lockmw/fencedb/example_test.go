package fencedb_test

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/fencedb"
	"github.com/lockbeat/lockbeat/renewer"
)

// accounts is a repository. It knows nothing of locks.
type accounts struct{ db *sql.DB }

func (a accounts) debit(ctx context.Context, id string, amount int64) error {
	tx, err := a.db.BeginTx(ctx, nil)
	if err != nil {
		return err // of a late holder: renewer.ErrLost
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - $1 WHERE id = $2",
		amount, id)
	if err != nil {
		return err
	}
	return tx.Commit()
}

// A holder of the account's lock that was paused for too long debits nothing.
func ExampleConnector() {
	open := func(connector driver.Connector) accounts { // a driver's, such as pq.NewConnector
		db := sql.OpenDB(fencedb.Connector(connector, fencedb.PostgreSQL)) // or MySQL, SQLite
		return accounts{db}
	}
	handle := func(ctx context.Context, keeper *renewer.Keeper, a accounts, id string) error {
		return lockmw.Run(ctx, keeper, lockmw.Key("account", id),
			func(ctx context.Context) error { return a.debit(ctx, id, 10) })
	}
	_, _ = open, handle
}
