package sql_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/fencetx"
	"github.com/lockbeat/lockbeat/renewer"
)

// isDrivers reports whether the driver's own error is in the chain.
func isDrivers(err error) bool {
	if _, ok := errors.AsType[*pgconn.PgError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return true
	}
	_, ok := errors.AsType[*sqlite.Error](err)
	return ok
}

// A table that is missing or of another shape, a transaction that can't write, and a database of
// another kind are told with what to do.
func TestFenceIsRejected(t *testing.T) {
	t.Parallel()
	rejected := func(t *testing.T, d *fenced, options sql.TxOptions, advice string) {
		t.Helper()
		s, err := d.begin(t.Context(), options)
		require.NoError(t, err)
		defer func() { require.NoError(t, s.rollback()) }()
		err = s.fence(holder(t, 1, "a"), "a")
		require.ErrorIs(t, err, renewer.ErrRejected)
		require.ErrorContains(t, err, advice)
		require.True(t, isDrivers(err), "%#v", err)
	}
	onEachFenced(t, func(t *testing.T, d *fenced) {
		if d.kind != "SQLite" { // whose driver begins no such transaction
			rejected(t, d, sql.TxOptions{ReadOnly: true}, "sql.TxOptions.ReadOnly")
		} else {
			reader := *d
			reader.DB = connect(t, "sqlite", d.dsn+"&_pragma=query_only(on)")
			reader.begin = reader.beginBy(fencetx.SQLite)
			rejected(t, &reader, sql.TxOptions{}, "read-only")
		}
		schema := "fencetx." + map[string]string{
			"PostgreSQL": "PostgreSQL", "pgx": "PostgreSQL", "MariaDB": "MySQL", "SQLite": "SQLite",
		}[d.kind] + "Schema"
		for kind, by := range map[string]func(context.Context, fencetx.Tx, lockmw.Set) error{
			"PostgreSQL": fencetx.PostgreSQL[lockmw.Set], "MariaDB": fencetx.MySQL[lockmw.Set],
			"SQLite": fencetx.SQLite[lockmw.Set],
		} {
			if d.kind != "pgx" && d.kind != kind { // pgx' transactions are none of database/sql
				other := *d
				other.begin = other.beginBy(by)
				rejected(t, &other, sql.TxOptions{}, "the database is of another kind")
			}
		}
		d.run(t, "DROP TABLE lockbeat_fences")
		rejected(t, d, sql.TxOptions{}, schema)
		d.run(t, "CREATE TABLE lockbeat_fences (name VARCHAR(20) PRIMARY KEY)")
		rejected(t, d, sql.TxOptions{}, schema)
	})
}

// A table that takes no row would refuse nobody.
func TestFenceIsNotWritten(t *testing.T) {
	t.Parallel()
	onEachFenced(t, func(t *testing.T, d *fenced) {
		if d.kind != "PostgreSQL" && d.kind != "pgx" {
			return // whose tables have no rules
		}
		d.run(t, "CREATE RULE none AS ON INSERT TO lockbeat_fences DO INSTEAD NOTHING")
		s := d.transaction(t)
		err := s.fence(holder(t, 1, "a"), "a")
		require.ErrorIs(t, err, renewer.ErrRejected)
		require.ErrorContains(t, err, "fencetx.PostgreSQLSchema")
	})
}

func TestFenceWithoutRights(t *testing.T) {
	t.Parallel()
	d := fencedPostgres(t)
	d.run(t, d.schema)
	user := fmt.Sprint("user_", tables.Add(1))
	d.run(t, "CREATE ROLE "+user, "DO $$BEGIN EXECUTE 'GRANT USAGE ON SCHEMA ' || "+
		"current_schema() || ' TO "+user+"'; END$$")
	try := func() error {
		s := d.transaction(t)
		require.NoError(t, s.exec(t.Context(), "SET LOCAL ROLE "+user))
		return s.fence(holder(t, 1, "a"), "a")
	}
	err := try()
	require.ErrorIs(t, err, renewer.ErrRejected)
	advice := regexp.MustCompile("GRANT SELECT, INSERT, UPDATE ON lockbeat_fences").
		FindString(err.Error())
	d.run(t, advice+" TO "+user)
	require.NoError(t, try())
}

// A transaction that has ended, or was undone, is told from one that is late.
func TestFenceOfATransactionThatIsOver(t *testing.T) {
	t.Parallel()
	onEachFenced(t, func(t *testing.T, d *fenced) {
		ctx := holder(t, 1, "a")
		for _, end := range []func(*session) error{
			func(s *session) error { return s.commit() },
			func(s *session) error { return s.rollback() },
		} {
			s := d.transaction(t)
			require.NoError(t, end(s))
			err := s.fence(ctx, "a")
			require.ErrorIs(t, err, renewer.ErrConfig)
			require.ErrorContains(t, err, "begin another one")
		}
		if d.undoes() {
			s := d.transaction(t)
			require.Error(t, s.exec(t.Context(), "SELECT 1/0"))
			err := s.fence(ctx, "a")
			require.ErrorContains(t, err, "heed that one's error")
			require.NotErrorIs(t, err, renewer.ErrLost)
			require.True(t, isDrivers(err))
		}
	})
}

// The cause of a context's end is in the chain: a lock that was lost, for one.
func TestFenceWhenTheContextHasEnded(t *testing.T) {
	t.Parallel()
	onEachFenced(t, func(t *testing.T, d *fenced) {
		lost := &renewer.LostError{Name: "a", Reason: renewer.ReasonExpired}
		ctx, cancel := context.WithCancelCause(holder(t, 1, "a"))
		s := d.transaction(t)
		require.NoError(t, s.fence(ctx, "a"))
		cancel(lost)
		err := s.fence(ctx, "a")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, error(lost))
	})
}

// Another transaction that does not end in time is a conflict.
func TestFenceWaitsTooLong(t *testing.T) {
	t.Parallel()
	onEachFenced(t, func(t *testing.T, d *fenced) {
		ctx := holder(t, 1, "a")
		require.NoError(t, d.transaction(t).fence(ctx, "a"))
		limit := "SET LOCAL lock_timeout = '1ms'"
		switch d.kind {
		case "MariaDB":
			limit = "SET innodb_lock_wait_timeout = 0"
		case "SQLite":
			limit = "PRAGMA busy_timeout = 1"
		}
		s := d.transaction(t)
		require.NoError(t, s.exec(t.Context(), limit))
		err := s.fence(ctx, "a")
		require.ErrorContains(t, err, "run the transaction again")
		require.True(t, isDrivers(err))
	})
}

// Names are bytes: no collation takes one for another, and none is too long that a lock may have.
func TestFencesOfNames(t *testing.T) {
	t.Parallel()
	onEachFenced(t, func(t *testing.T, d *fenced) {
		names := []string{
			"a", "A", "a ", "a\x00", "ä", "\xff", "\x80", "'", `\`, "$1", "?", "%",
			strings.Repeat("é", 256), strings.Repeat("é", 255),
		}
		for i, name := range names {
			token := int64(len(names) - i + 1)
			require.NoError(t, d.try(t, holder(t, token, name), name), "%q", name)
			late := d.try(t, holder(t, token-1, name, "other"), "other", name)
			lost, ok := errors.AsType[*renewer.LostError](late)
			require.True(t, ok, "%q: %v", name, late)
			require.Equal(t, name, lost.Name)
			require.Equal(t, token-1, lost.Fence)
			require.Equal(t, renewer.ReasonTaken, lost.Reason)
			require.NotContains(t, renewer.ErrorText(late), fmt.Sprintf("%q", name))
		}
	})
}

// A name that stands for several is fenced as these, and one that is given twice once.
func TestFenceOfKeys(t *testing.T) {
	t.Parallel()
	onEachFenced(t, func(t *testing.T, d *fenced) {
		names := []string{"a", "b"}
		require.NoError(t, d.try(t, holder(t, 2, names...), "b", "a", "b"))
		for _, name := range names {
			require.ErrorIs(t, d.try(t, holder(t, 1, name), name), renewer.ErrLost)
		}
	})
}

// MySQL's answers depend on flags and modes, which a program may choose as it likes.
func TestFenceWithAnyFlagsOfMySQL(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{
		"clientFoundRows=true", "interpolateParams=true", "sql_mode=''",
		"sql_mode='ANSI,TRADITIONAL'", "charset=latin1",
	} {
		d := fencedMariaDB(t)
		d.run(t, d.schema)
		d.DB = connect(t, "mysql", d.dsn+"?"+strings.ReplaceAll(flags, "'", "%27"))
		for _, token := range []int64{2, 2, 3, 1} {
			err := d.try(t, holder(t, token, "\xff"), "\xff")
			require.Equal(t, token == 1, errors.Is(err, renewer.ErrLost), "%s: %v", flags, err)
			require.Equal(t, token != 1, err == nil, err)
		}
	}
}

// The statements that the schemas' texts show delete old rows, and no others.
func TestOldFencesAreDeleted(t *testing.T) {
	t.Parallel()
	onEachFenced(t, func(t *testing.T, d *fenced) {
		file := map[string]string{"MariaDB": "mysql", "SQLite": "sqlite"}[d.kind]
		text, err := os.ReadFile("../../lockmw/fencetx/" + cmp.Or(file, "postgresql") + ".go")
		require.NoError(t, err)
		statement := regexp.MustCompile("DELETE FROM .*").FindString(string(text))
		ctx, exit, err := adapter.Enter(t.Context(), memoryKeeper(t), "new")
		require.NoError(t, err)
		defer func() { require.NoError(t, exit(nil)) }()
		s := d.transaction(t)
		const days = 24 * 3600 * 1_000_000
		now := lockmw.FenceOf(ctx, "new")
		require.NoError(t, s.fence(ctx, "new"))
		require.NoError(t, s.fence(holder(t, now-29*days, "young"), "young"))
		require.NoError(t, s.fence(holder(t, now-31*days, "old"), "old"))
		require.NoError(t, s.exec(t.Context(), statement))
		n, err := s.get(t.Context(), "SELECT count(*) FROM lockbeat_fences")
		require.NoError(t, err)
		require.Equal(t, int64(2), n)
	})
}

// At the level that MySQL's text names, the statement waits for a transaction under way, and no
// other transaction waits for the statement.
func TestDeletingOldFencesHoldsNoneUp(t *testing.T) {
	t.Parallel()
	d := fencedMariaDB(t)
	d.run(t, d.schema)
	first, later := holder(t, 1, "first"), holder(t, 1, "later")
	require.NoError(t, d.try(t, first, "first"))
	underWay := d.transaction(t)
	require.NoError(t, underWay.fence(later, "later"))

	d.level = sql.LevelReadCommitted
	deletes := d.transaction(t)
	deleted := make(chan error, 1)
	go func() {
		deleted <- deletes.exec(t.Context(), "DELETE FROM lockbeat_fences WHERE token < 0")
	}()
	d.waiting = "SELECT count(*) FROM information_schema.processlist " +
		"WHERE db = database() AND state = 'Updating'"
	d.await(t, 1)
	require.NoError(t, d.try(t, first, "first"))
	require.NoError(t, underWay.commit())
	require.NoError(t, <-deleted)
}

// A transaction that goes back to a savepoint before the call is not fenced any more, as the
// package's text says.
func TestASavepointGivesTheRowBack(t *testing.T) {
	t.Parallel()
	kinds := fencedKinds()
	delete(kinds, "SQLite") // it has one writer until the transaction ends
	onEachKind(t, kinds, func(t *testing.T, d *fenced) {
		s := d.transaction(t)
		require.NoError(t, s.exec(t.Context(), "SAVEPOINT sp"))
		require.NoError(t, s.fence(holder(t, 1, "a"), "a"))
		require.NoError(t, s.exec(t.Context(), "ROLLBACK TO SAVEPOINT sp"))
		require.NoError(t, d.try(t, holder(t, 2, "a"), "a"), "a successor does not wait")
		require.NoError(t, s.commit())
	})
}

// What would commit each statement by itself is no transaction to the compiler.
func TestNoTransactionsOfPgx(t *testing.T) {
	t.Parallel()
	for _, none := range []any{(*pgxpool.Pool)(nil), (*pgxpool.Conn)(nil)} {
		_, ok := none.(fencetx.PgxTx[pgconn.CommandTag])
		require.False(t, ok)
	}
	require.Implements(t, (*fencetx.PgxTx[pgconn.CommandTag])(nil), (*pgxpool.Tx)(nil))
}
