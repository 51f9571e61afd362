package sql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/mariatest"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/fencetx"
)

// mariadb is one server for all tests.
var mariadb = sync.OnceValues(mariatest.Open)

// fenced is a database with a table of fences.
type fenced struct {
	*sql.DB
	kind   string
	dsn    string
	schema string
	level  sql.IsolationLevel
	begin  beginner
	// waiting counts the sessions that wait for a row; "" if the database does not tell.
	waiting string
}

type beginner func(ctx context.Context, options sql.TxOptions) (*session, error)

// session is a transaction, by whichever library.
type session struct {
	fence            func(ctx context.Context, names ...string) error
	exec             func(ctx context.Context, query string) error
	get              func(ctx context.Context, query string) (int64, error) // one number
	commit, rollback func() error
}

// fencedKinds open new databases.
func fencedKinds() map[string]func(*testing.T) *fenced {
	return map[string]func(*testing.T) *fenced{
		"PostgreSQL": fencedPostgres, "pgx": fencedPgx, "MariaDB": fencedMariaDB,
		"SQLite": fencedSQLite,
	}
}

// onEachFenced runs f on a new database of each kind.
func onEachFenced(t *testing.T, f func(t *testing.T, d *fenced)) {
	t.Helper()
	onEachKind(t, fencedKinds(), f)
}

func onEachKind(
	t *testing.T, kinds map[string]func(*testing.T) *fenced, f func(t *testing.T, d *fenced),
) {
	t.Helper()
	for kind, open := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			d.kind = kind
			d.run(t, d.schema)
			f(t, d)
		})
	}
}

// onEachLevel runs f on a new database of each kind and level of isolation.
func onEachLevel(t *testing.T, f func(t *testing.T, d *fenced)) {
	t.Helper()
	for _, level := range []sql.IsolationLevel{
		sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable,
	} {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			kinds := fencedKinds()
			if level != sql.LevelSerializable {
				delete(kinds, "SQLite") // which has no other
			}
			onEachKind(t, kinds, func(t *testing.T, d *fenced) {
				d.level = level
				f(t, d)
			})
		})
	}
}

func (d *fenced) run(t *testing.T, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		_, err := d.ExecContext(t.Context(), statement)
		require.NoError(t, err, statement)
	}
}

// transaction begins one, which is rolled back at the end of the test.
func (d *fenced) transaction(t *testing.T) *session {
	t.Helper()
	s, err := d.begin(t.Context(), sql.TxOptions{Isolation: d.level})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.rollback() })
	return s
}

// try fences a transaction, and commits it, or rolls it back.
func (d *fenced) try(t *testing.T, ctx context.Context, names ...string) error {
	t.Helper()
	s := d.transaction(t)
	if err := s.fence(ctx, names...); err != nil {
		require.NoError(t, s.rollback())
		return err
	}
	return s.commit()
}

// await returns when n sessions wait for a row.
func (d *fenced) await(t *testing.T, n int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		var waiting int64
		require.NoError(t, d.QueryRowContext(t.Context(), d.waiting).Scan(&waiting))
		return waiting == n
	}, 30*time.Second, 5*time.Millisecond)
}

// connect opens a database by database/sql.
func connect(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func fencedPostgres(t *testing.T) *fenced {
	t.Helper()
	all := onPostgres(t)
	own := fmt.Sprint("fences_", tables.Add(1))
	all.run(t, "CREATE SCHEMA "+own)
	d := &fenced{
		schema: fencetx.PostgreSQLSchema,
		dsn:    fmt.Sprintf("%s search_path=%s application_name=%[2]s", all.dsn, own),
		waiting: "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND " +
			"application_name = '" + own + "'",
	}
	d.DB = connect(t, "pgx", d.dsn)
	d.begin = d.beginBy(fencetx.PostgreSQL)
	return d
}

func fencedMariaDB(t *testing.T) *fenced {
	t.Helper()
	server, err := mariadb()
	if errors.Is(err, mariatest.ErrMissing) && os.Getenv(mariatest.RequireEnv) != "1" {
		t.Skip(err)
	}
	require.NoError(t, err)
	own := fmt.Sprint("fences_", tables.Add(1))
	_, err = connect(t, "mysql", server.DSN("")).ExecContext(t.Context(), "CREATE DATABASE "+own)
	require.NoError(t, err)
	d := &fenced{
		schema: fencetx.MySQLSchema, dsn: server.DSN(own),
		// It does not say so in InnoDB's own tables as long as they are asked often.
		waiting: "SELECT count(*) FROM information_schema.processlist " +
			"WHERE db = database() AND state = 'Update'",
	}
	d.DB = connect(t, "mysql", d.dsn)
	d.begin = d.beginBy(fencetx.MySQL)
	return d
}

func fencedSQLite(t *testing.T) *fenced {
	t.Helper()
	d := &fenced{
		schema: fencetx.SQLiteSchema,
		dsn: "file:" + filepath.Join(t.TempDir(), "db") +
			"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(off)",
	}
	d.DB = connect(t, "sqlite", d.dsn)
	d.begin = d.beginBy(fencetx.SQLite)
	return d
}

// beginBy begins transactions of database/sql, which by fences.
func (d *fenced) beginBy(
	by func(context.Context, fencetx.Tx, lockmw.Set) error,
) beginner {
	return func(ctx context.Context, options sql.TxOptions) (*session, error) {
		tx, err := d.BeginTx(ctx, &options)
		if err != nil {
			return nil, err
		}
		return &session{
			fence: func(ctx context.Context, names ...string) error {
				return by(ctx, tx, lockmw.All(names...))
			},
			exec: func(ctx context.Context, query string) error {
				_, err := tx.ExecContext(ctx, query)
				return err
			},
			get: func(ctx context.Context, query string) (n int64, err error) {
				err = tx.QueryRowContext(ctx, query).Scan(&n)
				return n, err
			},
			commit: tx.Commit, rollback: tx.Rollback,
		}, nil
	}
}

// fencedPgx is PostgreSQL with transactions of pgx's own.
func fencedPgx(t *testing.T) *fenced {
	t.Helper()
	d := fencedPostgres(t)
	pool, err := pgxpool.New(t.Context(), d.dsn)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d.begin = func(ctx context.Context, options sql.TxOptions) (*session, error) {
		o := pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(strings.ToLower(options.Isolation.String()))}
		if options.Isolation == sql.LevelDefault {
			o.IsoLevel = ""
		}
		if options.ReadOnly {
			o.AccessMode = pgx.ReadOnly
		}
		tx, err := pool.BeginTx(ctx, o)
		if err != nil {
			return nil, err
		}
		return &session{
			fence: func(ctx context.Context, names ...string) error {
				return fencetx.Pgx(ctx, tx, lockmw.All(names...))
			},
			exec: func(ctx context.Context, query string) error {
				_, err := tx.Exec(ctx, query)
				return err
			},
			get: func(ctx context.Context, query string) (n int64, err error) {
				err = tx.QueryRow(ctx, query).Scan(&n)
				return n, err
			},
			commit:   func() error { return tx.Commit(context.WithoutCancel(ctx)) },
			rollback: func() error { return tx.Rollback(context.WithoutCancel(ctx)) },
		}, nil
	}
	return d
}

// inConflict reports whether a transaction is to be run again, by what the driver says.
func inConflict(err error) bool {
	var coded interface{ SQLState() string } // of each driver of PostgreSQL
	if errors.As(err, &coded) {
		return coded.SQLState() == "40001" || coded.SQLState() == "40P01"
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number == 1213
	}
	return err != nil && strings.Contains(err.Error(), "database is locked")
}
