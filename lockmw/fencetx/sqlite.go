package fencetx

import (
	"context"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/fence"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
)

// SQLiteSchema is [PostgreSQLSchema] for SQLite 3.24 and newer. Old rows are
// deleted by
//
//	DELETE FROM lockbeat_fences WHERE token < (strftime('%s', 'now') - 30 * 86400) * 1000000
const SQLiteSchema = `CREATE TABLE IF NOT EXISTS lockbeat_fences (
	name  BLOB    NOT NULL PRIMARY KEY, -- the lock's, as bytes
	token INTEGER NOT NULL              -- the highest that a transaction has come with
);
`

const sqliteUpsert = `INSERT INTO lockbeat_fences (name, token) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE token <= excluded.token`

// SQLite is [PostgreSQL] for SQLite.
func SQLite[N lockmw.Name](ctx context.Context, tx Tx, name N) error {
	locks, err := locksOf(ctx, names.Set(lockmw.All(name)))
	if err != nil {
		return err
	}
	for _, l := range locks {
		var changed int64
		result, err := tx.ExecContext(ctx, sqliteUpsert, []byte(l.Name), l.Token)
		if err == nil {
			changed, err = result.RowsAffected()
		}
		switch {
		case err != nil:
			return fence.SQLite.Failed(ctx, err)
		case changed == 0:
			return l.Lost("the row's token is higher", nil)
		}
	}
	return nil
}
