package sql_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
)

const readAccount = "SELECT n FROM accounts"

// What a lease has read no former holder writes any more, also if nothing was
// written since: the next write goes by what was read.
func TestWhatALeaseHasReadStays(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pgx/stdlib", "lib/pq", "MariaDB", "SQLite"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openWriters(t, name)
			r, _ := ways()[name].repo(t, d, true).(sqlRepository)
			token := int64(1)
			for way, read := range map[string]func(context.Context, *sql.DB) error{
				"by itself": queries(readAccount),
				"prepared":  prepared(readAccount, false),
				"read-only": inTx(&sql.TxOptions{ReadOnly: true}, readAccount),
				"rolled back": func(ctx context.Context, db *sql.DB) error {
					tx, err := db.BeginTx(ctx, nil)
					if err != nil {
						return err
					}
					return tx.Rollback()
				},
			} {
				former, next := holder(t, token, "a"), holder(t, token+1, "a")
				require.NoError(t, inTx(nil)(former, r.db), way)
				require.NoError(t, read(next, r.db), way)
				require.ErrorIs(t, inTx(nil)(former, r.db), renewer.ErrLost, way)
				token += 2
			}
		})
	}
}

func TestWhatALeaseHasReadStaysByPgx(t *testing.T) {
	t.Parallel()
	pool := openPool(t, openWriters(t, "sqlc on pgx"))
	none := func(pgx.Tx) error { return nil }
	token := int64(1)
	for way, read := range map[string]func(context.Context) error{
		"by itself": func(ctx context.Context) error {
			rows, err := pool.Query(ctx, readAccount)
			rows.Close()
			return err
		},
		"a batch": func(ctx context.Context) error {
			b := &pgx.Batch{}
			b.Queue(readAccount)
			return pool.SendBatch(ctx, b).Close()
		},
		"read-only": func(ctx context.Context) error {
			return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, none)
		},
	} {
		former, next := holder(t, token, "a"), holder(t, token+1, "a")
		require.NoError(t, pgx.BeginFunc(former, pool, none), way)
		require.NoError(t, read(next), way)
		require.ErrorIs(t, pgx.BeginFunc(former, pool, none), renewer.ErrLost, way)
		token += 2
	}
	failed, err := pool.Query(holder(t, 1, "a"), "UPDATE accounts SET n = 0")
	require.ErrorIs(t, err, renewer.ErrLost)
	require.Nil(t, failed.TypeMap())
}
