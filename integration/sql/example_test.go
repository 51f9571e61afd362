package sql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/fencetx"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// Two holders of one lock, since its store has forgotten the former, which was paused. The database
// refuses what that one wants to write when it wakes up.
func Example_lateHolder() {
	ctx := context.Background()
	var keepers [2]*renewer.Keeper
	for i := range keepers {
		keepers[i], _ = renewer.New(memory.New(), renewer.Config{})
		defer func() { _ = keepers[i].Shutdown(ctx) }()
	}
	paused, exit, _ := adapter.Enter(ctx, keepers[0], "account:7")
	defer func() { _ = exit(nil) }()

	db, _ := sql.Open("sqlite", ":memory:")
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	_, _ = db.Exec(fencetx.SQLiteSchema + "CREATE TABLE accounts (id TEXT, balance INTEGER);" +
		"INSERT INTO accounts VALUES ('7', 100)")
	debit := func(ctx context.Context, amount int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := fencetx.SQLite(ctx, tx, "account:7"); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - ? WHERE id = '7'", amount)
		if err != nil {
			return err
		}
		return tx.Commit()
	}
	_, err := lockmw.Do(ctx, keepers[1], "account:7", func(ctx context.Context) (any, error) {
		return nil, debit(ctx, 10)
	})
	fmt.Println(err)
	fmt.Println(errors.Is(debit(paused, 1), renewer.ErrLost))
	var balance int
	_ = db.QueryRow("SELECT balance FROM accounts").Scan(&balance)
	fmt.Println(balance)
	// Output:
	// <nil>
	// true
	// 90
}

// With pgx a function that begins, commits and rolls back takes the fence first.
func Example_pgx() {
	debit := func(ctx context.Context, conn *pgx.Conn, id string, amount int64) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if err := fencetx.Pgx(ctx, tx, lockmw.Key("account", id)); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance - $1 WHERE id = $2",
				amount, id)
			return err
		})
	}
	_ = debit
}
