package fencetx

import (
	"context"
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/fence"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/renewer"
)

// MySQLSchema is [PostgreSQLSchema] for MySQL and MariaDB. Old rows are deleted
// by
//
//	DELETE FROM lockbeat_fences WHERE token < (unix_timestamp() - 30 * 86400) * 1000000
//
// in a transaction at READ COMMITTED: above that level calls would wait for it.
const MySQLSchema = `CREATE TABLE IF NOT EXISTS lockbeat_fences (
	name  VARBINARY(512) NOT NULL PRIMARY KEY, -- the lock's, as bytes
	token BIGINT         NOT NULL              -- the highest that a transaction has come with
) ENGINE=InnoDB;
`

// The answer to it has the row's token as the last insert ID. The number of
// rows that have changed would depend on the connection's flag clientFoundRows.
const mysqlUpsert = `INSERT INTO lockbeat_fences (name, token) VALUES (?, LAST_INSERT_ID(?))
ON DUPLICATE KEY UPDATE token = LAST_INSERT_ID(GREATEST(token, ?))`

// MySQL is [PostgreSQL] for MariaDB and MySQL (untested), by
// github.com/go-sql-driver/mysql.
func MySQL[N lockmw.Name](ctx context.Context, tx Tx, name N) error {
	locks, err := locksOf(ctx, names.Set(lockmw.All(name)))
	if err != nil {
		return err
	}
	for _, l := range locks {
		var highest int64
		result, err := tx.ExecContext(ctx, mysqlUpsert, []byte(l.Name), l.Token, l.Token)
		if err == nil {
			highest, err = result.LastInsertId()
		}
		switch {
		case err != nil:
			return fence.MySQL.Failed(ctx, err)
		case highest > l.Token:
			return l.Lost(fmt.Sprint("the row's token is ", highest), nil)
		case highest < l.Token:
			return &fence.Error{
				Why: "the answer has no LAST_INSERT_ID(expr): use MySQL or MariaDB, by " +
					"github.com/go-sql-driver/mysql", Kind: renewer.ErrConfig,
			}
		}
	}
	return nil
}
