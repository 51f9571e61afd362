package sql_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/fencedb"
	"github.com/lockbeat/lockbeat/renewer"
)

// What becomes of a statement under a lock.
const (
	isFenced = ""       // it is done; a late holder is refused with ErrLost
	passes   = "passes" // it is done, late or not: it writes nothing
)

// outcome is what is expected of a statement; another text than the above is one of the
// error that it is refused with, late or not.
type outcome struct {
	name string
	on   string // a kind of database, or all
	want string
	do   func(ctx context.Context, db *sql.DB) error
}

func execs(query string, args ...any) func(context.Context, *sql.DB) error {
	return func(ctx context.Context, db *sql.DB) error {
		_, err := db.ExecContext(ctx, query, args...)
		return err
	}
}

func queries(query string) func(context.Context, *sql.DB) error {
	return func(ctx context.Context, db *sql.DB) error {
		rows, err := db.QueryContext(ctx, query)
		if err != nil {
			return err
		}
		for rows.Next() {
			continue
		}
		return errors.Join(rows.Err(), rows.Close())
	}
}

// inTx runs statements in a transaction, and commits it.
func inTx(o *sql.TxOptions, statements ...string) func(context.Context, *sql.DB) error {
	return func(ctx context.Context, db *sql.DB) error {
		tx, err := db.BeginTx(ctx, o)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		for _, s := range statements {
			if _, err := tx.ExecContext(ctx, s); err != nil {
				return err
			}
		}
		return tx.Commit()
	}
}

// onConn runs statements on one connection.
func onConn(statements ...string) func(context.Context, *sql.DB) error {
	return func(ctx context.Context, db *sql.DB) (err error) {
		c, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		for _, s := range statements {
			if _, err := c.ExecContext(ctx, s); err != nil {
				return err
			}
		}
		return nil
	}
}

// prepared runs a statement that was prepared: by itself, or in a transaction.
func prepared(query string, in bool) func(context.Context, *sql.DB) error {
	return func(ctx context.Context, db *sql.DB) (err error) {
		s, err := db.PrepareContext(ctx, query)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		if !in {
			_, err = s.ExecContext(ctx)
			return err
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.StmtContext(ctx, s).ExecContext(ctx); err != nil {
			return err
		}
		return tx.Commit()
	}
}

const insert = "INSERT INTO entries (id) VALUES ('x')"

func outcomes() []outcome {
	const pg, maria, lite = "PostgreSQL", "MariaDB", "SQLite"
	const createMore = "CREATE TABLE IF NOT EXISTS more (id BIGINT)"
	readOnly := &sql.TxOptions{ReadOnly: true}
	return []outcome{
		{"a query", "", passes, queries("SELECT count(*) FROM entries WHERE id = 'insert; it'")},
		{"WITH", "", passes, queries("WITH e AS (SELECT id FROM entries) SELECT max(id) FROM e")},
		{"a locking query", pg, isFenced, queries("SELECT n FROM accounts FOR UPDATE")},
		{"a function", pg, isFenced, queries("SELECT pg_advisory_xact_lock(1)")},
		{"WITH that writes", pg, isFenced, queries("WITH e AS (" + insert +
			" RETURNING id) SELECT id FROM e")},
		{"an insert", "", isFenced, execs(insert)},
		{"an insert with rows", "", isFenced, queries(insert + " RETURNING id")},
		{"behind a comment", "", isFenced, execs("-- name: Insert :exec\n/* SELECT */ " + insert)},
		{"a prepared query", "", passes, prepared("SELECT count(*) FROM entries", false)},
		{"prepared", "", isFenced, prepared(insert, false)},
		{"prepared, in a transaction", "", isFenced, prepared(insert, true)},
		{"a transaction", "", isFenced, inTx(nil, insert)},
		{"an empty transaction", "", isFenced, inTx(nil)},
		{"a savepoint", "", isFenced, inTx(nil, "SAVEPOINT a", insert, "ROLLBACK TO SAVEPOINT a",
			"RELEASE SAVEPOINT a", insert)},
		{"read-only", pg, passes, inTx(readOnly, "SELECT 1")},
		{"read-only", maria, passes, inTx(readOnly, "SELECT 1")},
		{
			"read-only, and then not", pg, "without sql.TxOptions.ReadOnly",
			inTx(readOnly, "SET TRANSACTION READ WRITE", insert),
		},
		{"read-only", lite, passes, inTx(readOnly, "SELECT 1")},
		{"a write, read-only", lite, "without sql.TxOptions.ReadOnly", inTx(readOnly, insert)},
		{
			"read-only, and then not, by name", pg, "without sql.TxOptions.ReadOnly",
			inTx(readOnly, "SET transaction_read_only = off", insert),
		},
		{
			"read-only, and then not, by BEGIN", pg, "by BeginTx",
			inTx(readOnly, "BEGIN READ WRITE", insert),
		},
		{"read-only, and then over", "", "by Commit or Rollback", inTx(readOnly, "COMMIT", insert)},
		{"BEGIN in a transaction", maria, "by BeginTx", inTx(nil, insert, "BEGIN", insert)},
		{
			"autocommit", maria, "by BeginTx",
			inTx(nil, insert, "SET autocommit = 1", insert),
		},
		{"several", lite, isFenced, execs(insert + "; " + insert)},
		{"several", pg, isFenced, inTx(nil, insert+"; "+insert)},
		{"several that read", lite, passes, queries("SELECT 1; SELECT f.n FROM accounts f")},
		{"several that begin", "", "by BeginTx", execs("BEGIN; " + insert + "; COMMIT")},
		{"what ORMs ask", pg, passes, queries("SELECT version(), current_database()")},
		{"on a connection", "", isFenced, onConn(insert, insert)},
		{"BEGIN as text", "", "by BeginTx", onConn("BEGIN", insert, "COMMIT")},
		{"a savepoint that begins", lite, "by BeginTx", onConn("SAVEPOINT a", insert, "RELEASE a")},
		{"COMMIT as text", "", "by Commit or Rollback", inTx(nil, insert, "COMMIT", insert)},
		{"ROLLBACK as text", "", "by Commit or Rollback", inTx(nil, "rollback", insert)},
		{"SET", pg, passes, execs("SET application_name = 'a'")},
		{"SET", maria, passes, execs("SET @a = 1")},
		{"PRAGMA", lite, passes, execs("PRAGMA cache_size = 100")},
		{"LISTEN", pg, passes, execs("LISTEN a")},
		{"NOTIFY", pg, isFenced, execs("NOTIFY a")},
		{"VACUUM", pg, "under no lock", execs("VACUUM entries")},
		{
			"CREATE INDEX CONCURRENTLY", pg, "under no lock",
			execs("CREATE INDEX CONCURRENTLY ON entries (id)"),
		},
		{"VACUUM", lite, "under no lock", execs("VACUUM")},
		{"LOCK TABLES", maria, "by BeginTx", onConn("LOCK TABLES entries WRITE", insert)},
		{"autocommit", maria, "by BeginTx", onConn("SET autocommit = 0", insert, "ROLLBACK")},
		{"DDL", "", isFenced, execs("CREATE TABLE IF NOT EXISTS other (id BIGINT)")},
		{"DDL in a transaction", pg, isFenced, inTx(nil, createMore)},
		{"DDL in a transaction", lite, isFenced, inTx(nil, createMore)},
		{
			"DDL in a transaction", maria, "outside of the transaction",
			inTx(nil, "CREATE TABLE more (id BIGINT)"),
		},
		{
			"a temporary table", maria, isFenced,
			inTx(nil, "CREATE TEMPORARY TABLE IF NOT EXISTS tmp (id BIGINT)"),
		},
	}
}

// Every kind of statement is as on the driver itself, fenced, or refused with what to do.
func TestStatementsUnderALock(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"pgx/stdlib", "pgx/stdlib, plain", "lib/pq", "MariaDB", "SQLite",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := ways()[name]
			d := w.openAccount(t, name)
			r, _ := w.repo(t, d, true).(sqlRepository)
			kind := map[fencedb.Dialect]string{
				fencedb.PostgreSQL: "PostgreSQL", fencedb.MySQL: "MariaDB",
				fencedb.SQLite: "SQLite",
			}[d.dialect()]
			late, now := holder(t, 1, "a"), holder(t, 2, "a")
			require.NoError(t, inTx(nil)(now, r.db))
			for _, o := range outcomes() {
				if o.on != "" && o.on != kind {
					continue
				}
				err, lost := o.do(now, r.db), o.do(late, r.db)
				switch o.want {
				case isFenced:
					assert.NoError(t, err, o.name)
					assert.ErrorIs(t, lost, renewer.ErrLost, o.name)
				case passes:
					assert.NoError(t, err, o.name)
					assert.NoError(t, lost, o.name)
				default:
					assert.ErrorContains(t, err, o.want, o.name)
					if !errors.Is(lost, renewer.ErrLost) {
						assert.ErrorContains(t, lost, o.want, o.name)
					}
				}
				if o.want == isFenced || o.want == passes { // else it need not be possible at all
					assert.NoError(t, o.do(t.Context(), r.db), "%s, under no lock", o.name)
				}
			}
			require.NoError(t, r.db.PingContext(t.Context()))
			require.Zero(t, r.db.Stats().InUse)
		})
	}
}

// What was copied in is fenced as the rest: by lib/pq's own statement, and by pgx.
func TestCopyUnderALock(t *testing.T) {
	t.Parallel()
	w := ways()["lib/pq"]
	d := w.openAccount(t, "lib/pq")
	r, _ := w.repo(t, d, true).(sqlRepository)
	byPQ := func(ctx context.Context) error {
		tx, err := r.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		s, err := tx.PrepareContext(ctx, "COPY entries (id) FROM STDIN")
		if err != nil {
			return err
		}
		_, err = s.ExecContext(ctx, "x")
		_, end := s.ExecContext(ctx)
		return errors.Join(err, end, s.Close(), tx.Commit())
	}
	pool := openPool(t, d)
	byPgx := func(ctx context.Context) error {
		_, err := pool.CopyFrom(ctx, pgx.Identifier{"entries"}, []string{"id"},
			pgx.CopyFromRows([][]any{{"x"}}))
		return err
	}
	late, now := holder(t, 1, "a"), holder(t, 2, "a")
	for _, copies := range []func(context.Context) error{byPQ, byPgx} {
		require.NoError(t, copies(now))
		require.ErrorIs(t, copies(late), renewer.ErrLost)
		require.NoError(t, copies(t.Context()))
	}
	var n int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM entries").Scan(&n))
	require.Equal(t, 4, n)
}

// A transaction that goes back to a savepoint stays fenced: its successor waits.
func TestASavepointKeepsTheFence(t *testing.T) {
	t.Parallel()
	for name, w := range ways() {
		if name == "SQLite" || name == "GORM" || name == "pgx's own connection" {
			continue
		}
		d := w.openAccount(t, name)
		db := d.carrying(t)
		former, successor := holder(t, 1, "a"), holder(t, 2, "a")
		tx, err := db.BeginTx(former, nil)
		require.NoError(t, err)
		for _, s := range []string{"SAVEPOINT a", insert, "ROLLBACK TO SAVEPOINT a"} {
			_, err := tx.ExecContext(former, s)
			require.NoError(t, err)
		}
		short, cancel := context.WithTimeout(successor, 100*time.Millisecond)
		require.Error(t, inTx(nil)(short, db), name)
		cancel()
		require.NoError(t, tx.Commit())
		require.NoError(t, inTx(nil)(successor, db), name)
	}
}

// A connection that the server has ended is as on the driver itself.
func TestConnectionsThatHaveEnded(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pgx/stdlib", "pgx/stdlib, plain", "lib/pq", "MariaDB"} {
		w := ways()[name]
		d := w.openAccount(t, name)
		under := holder(t, 1, "a")
		after := func(carries bool) (errs []error) {
			r, _ := w.repo(t, d, carries).(sqlRepository)
			for _, do := range []func(context.Context, *sql.DB) error{
				inTx(nil, insert), execs(insert),
			} {
				r.db.SetMaxOpenConns(1)
				require.NoError(t, do(under, r.db))
				end := "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid <> " +
					"pg_backend_pid() AND application_name = current_setting('application_name')"
				if d.dialect() == fencedb.MySQL {
					var id int64
					require.NoError(t, r.db.QueryRowContext(t.Context(),
						"SELECT connection_id()").Scan(&id))
					_, err := d.ExecContext(t.Context(), "KILL ?", id)
					require.NoError(t, err)
					require.Eventually(t, func() bool {
						var left int
						require.NoError(t, d.QueryRowContext(t.Context(), "SELECT count(*) FROM "+
							"information_schema.processlist WHERE id = ?", id).Scan(&left))
						return left == 0
					}, 10*time.Second, time.Millisecond)
				} else {
					_, err := d.ExecContext(t.Context(), end)
					require.NoError(t, err)
				}
				errs = append(errs, do(under, r.db))
			}
			return errs
		}
		bare, carried := after(false), after(true)
		for i := range bare {
			assert.Equal(t, bare[i] == nil || carried[i] == nil, carried[i] == nil,
				"%s: %v, bare %v", name, carried[i], bare[i])
		}
	}
}

// The driver's own connection is found in ours.
func TestRaw(t *testing.T) {
	t.Parallel()
	d := ways()["pgx/stdlib"].openAccount(t, "pgx/stdlib")
	c, err := d.carrying(t).Conn(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	require.NoError(t, c.Raw(func(raw any) error {
		_, ok := fencedb.Unwrap(raw).(interface{ Conn() *pgx.Conn })
		require.True(t, ok)
		return nil
	}))
	require.Equal(t, 1, fencedb.Unwrap(1))
}
