package fencetx

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/fence"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
)

// Tx is a transaction of database/sql: [*sql.Tx], or what wraps one.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	Commit() error
}

// PgxTx is a transaction of pgx: pgx.Tx or *pgxpool.Tx. R is pgconn.CommandTag.
type PgxTx[R interface{ RowsAffected() int64 }] interface {
	Exec(ctx context.Context, query string, args ...any) (R, error)
	Commit(ctx context.Context) error
}

// PostgreSQLSchema makes the table, for PostgreSQL 11 and newer, unless it
// exists: apply it with your other migrations. A user needs the rights to
// select, insert and update. Tokens are microseconds since 1970. Old rows are
// deleted by
//
//	DELETE FROM lockbeat_fences WHERE token < (extract(epoch FROM now()) - 30 * 86400) * 1000000
const PostgreSQLSchema = `CREATE TABLE IF NOT EXISTS lockbeat_fences (
	name  BYTEA   NOT NULL, -- the lock's, as bytes
	claim BOOLEAN NOT NULL, -- a holder is about to raise the name's other row
	token BIGINT  NOT NULL, -- the highest that a transaction has come with
	PRIMARY KEY (name, claim)
);
`

// PostgreSQL fences tx, a transaction on PostgreSQL, with the lock on name, or
// all of several, which ctx must run under.
func PostgreSQL[N lockmw.Name](ctx context.Context, tx Tx, name N) error {
	set := names.Set(lockmw.All(name))
	return postgreSQL(ctx, set, func(query string, args []any) (rows int64, err error) {
		result, err := tx.ExecContext(ctx, query, args...)
		if err != nil {
			return 0, err
		}
		return result.RowsAffected()
	})
}

// Pgx is [PostgreSQL] for a transaction of pgx.
func Pgx[R interface{ RowsAffected() int64 }, N lockmw.Name](
	ctx context.Context, tx PgxTx[R], name N,
) error {
	set := names.Set(lockmw.All(name))
	return postgreSQL(ctx, set, func(query string, args []any) (rows int64, err error) {
		result, err := tx.Exec(ctx, query, args...)
		if err != nil {
			return 0, err
		}
		return result.RowsAffected(), nil
	})
}

func postgreSQL(
	ctx context.Context, set names.Set,
	exec func(query string, args []any) (rows int64, err error),
) error {
	locks, err := locksOf(ctx, set)
	if err != nil {
		return err
	}
	rows, err := exec(upsert(locks))
	if late := fence.Overtaken(err, locks); late != nil {
		return late
	}
	if err == nil && rows != int64(len(locks)) { // by a trigger or a rule of the table
		return fence.PostgreSQL.Table(fmt.Sprintf("%d rows were written of %d", rows, len(locks)))
	}
	return fence.PostgreSQL.Failed(ctx, err)
}

// upsert is the statement for locks. Where a row has a higher token, the cast
// fails, which undoes the transaction. A condition in its place would leave
// that to the program. What it fails with is in the server's log, too, and has
// the hash that is in ours: see [renewer.HashName].
func upsert(locks []fence.Lock) (query string, args []any) {
	var b strings.Builder
	b.WriteString("INSERT INTO lockbeat_fences AS f (name, claim, token) VALUES ")
	for i, l := range locks {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "($%d::bytea, false, $%d::bigint)", 2*i+1, 2*i+2)
		args = append(args, []byte(l.Name), l.Token)
	}
	b.WriteString(" ON CONFLICT (name, claim) DO UPDATE SET token = CASE" +
		" WHEN f.token <= excluded.token THEN excluded.token" +
		" ELSE ('lock_hash=' || left(encode(sha256(f.name), 'hex'), 16) ||" +
		" ' has the token ' || f.token)::bigint END")
	return b.String(), args
}
