package fencetx

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/renewer"
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
// exists: apply it with your other migrations. A user needs the rights to select, insert
// and update. Tokens are microseconds since 1970. Old rows are deleted by
//
//	DELETE FROM lockbeat_fences WHERE token < (extract(epoch FROM now()) - 30 * 86400) * 1000000
const PostgreSQLSchema = `CREATE TABLE IF NOT EXISTS lockbeat_fences (
	name  BYTEA  NOT NULL PRIMARY KEY, -- the lock's, as bytes
	token BIGINT NOT NULL              -- the highest that a transaction has come with
);
`

// PostgreSQL fences tx, a transaction on PostgreSQL, with the lock on name, or all of
// several, which ctx must run under.
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
	if late := overtaken(err, locks); late != nil {
		return late
	}
	if err == nil && rows != int64(len(locks)) { // by a trigger or a rule of the table
		return &failure{
			fmt.Sprintf("%d rows were written of %d: the table is another one; make it anew, by "+
				"fencetx.PostgreSQLSchema", rows, len(locks)), renewer.ErrRejected, nil,
		}
	}
	return failed(ctx, err, "PostgreSQLSchema")
}

// upsert is the statement for locks. Where a row has a higher token, the cast fails, which undoes
// the transaction. A condition in its place would leave that to the program. What it fails with is
// in the server's log, too, and has the hash that is in ours: see [renewer.HashName].
func upsert(locks []lock) (query string, args []any) {
	var b strings.Builder
	b.WriteString("INSERT INTO lockbeat_fences AS f (name, token) VALUES ")
	for i, l := range locks {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "($%d::bytea, $%d::bigint)", 2*i+1, 2*i+2)
		args = append(args, []byte(l.name), l.token)
	}
	b.WriteString(" ON CONFLICT (name) DO UPDATE SET token = CASE" +
		" WHEN f.token <= excluded.token THEN excluded.token" +
		" ELSE ('lock_hash=' || left(encode(sha256(f.name), 'hex'), 16) ||" +
		" ' has the token ' || f.token)::bigint END")
	return b.String(), args
}

// higher finds what was cast in the server's message, whatever language the rest is in.
var higher = regexp.MustCompile(`lock_hash=(\w{16}) has the token (\d+)`)

// overtaken is the error of the lock whose row has a higher token, if that is what err says.
func overtaken(err error, locks []lock) error {
	if err == nil {
		return nil
	}
	found := higher.FindStringSubmatch(err.Error())
	if found == nil {
		return nil
	}
	for _, l := range locks {
		if renewer.HashName(l.name, nil) == found[1] {
			return l.lost("the row's token is "+found[2], err)
		}
	}
	return nil
}
