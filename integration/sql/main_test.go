package sql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/lockbeat/lockbeat/internal/testutil/pgtest"
	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/lockmw/once/sqlrecord"
)

func TestMain(m *testing.M) {
	if given := os.Getenv(holderEnv); given != "" {
		hold(given)
	}
	suite.AtOnce(4) // they wait for servers
	code := m.Run()
	var left []error
	if server, err := postgres(); err == nil {
		left = append(left, closed(server, "pgx", server.DSN()))
	}
	if server, err := mariadb(); err == nil {
		left = append(left, closed(server, "mysql", server.DSN("")))
	}
	if err := errors.Join(append(left, goleak.Find())...); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// closed closes a server, which then must be gone.
func closed(server io.Closer, driver, dsn string) error {
	if err := server.Close(); err != nil {
		return err
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	if db.PingContext(context.Background()) == nil {
		err = errors.New(driver + ": the server is still there")
	}
	return errors.Join(err, db.Close())
}

// postgres is one server for all tests that don't harm it.
var postgres = sync.OnceValues(func() (*pgtest.Server, error) { return pgtest.Open() })

// database is one that holds a table of records and a table of effects.
type database struct {
	*sql.DB
	driver  string
	dsn     string
	records string // the table
	effects string
}

var tables atomic.Int64

// onEach runs f on each kind of database.
func onEach(t *testing.T, f func(t *testing.T, d *database)) {
	t.Helper()
	for name, open := range map[string]func(*testing.T) *database{
		"PostgreSQL": onPostgres, "SQLite": onSQLite,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, open(t))
		})
	}
}

func onPostgres(t *testing.T) *database {
	t.Helper()
	server, err := postgres()
	if errors.Is(err, pgtest.ErrMissing) && os.Getenv(pgtest.RequireEnv) != "1" {
		t.Skip(err)
	}
	require.NoError(t, err)
	return open(t, "pgx", server.DSN())
}

func onSQLite(t *testing.T) *database {
	t.Helper()
	return open(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "db")+
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(off)")
}

// open connects, and makes the tables.
func open(t *testing.T, driver, dsn string) *database {
	t.Helper()
	n := tables.Add(1)
	d := &database{
		driver: driver, dsn: dsn,
		records: fmt.Sprintf("records_%d", n), effects: fmt.Sprintf("effects_%d", n),
	}
	var err error
	d.DB, err = sql.Open(driver, dsn)
	require.NoError(t, err)
	db := d.DB
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	d.run(t, d.recorder(t).Schema())
	d.run(t, "CREATE TABLE "+d.effects+" (name TEXT NOT NULL, by BIGINT NOT NULL)")
	return d
}

// by is the same database, reached by another DSN.
func (d *database) by(t *testing.T, dsn string) *database {
	t.Helper()
	other := *d
	var err error
	other.DB, err = sql.Open(d.driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, other.Close()) })
	return &other
}

func (d *database) run(t *testing.T, statement string) {
	t.Helper()
	_, err := d.ExecContext(t.Context(), statement)
	require.NoError(t, err)
}

func (d *database) recorder(t *testing.T, opts ...sqlrecord.Option) sqlrecord.Recorder {
	t.Helper()
	kind := sqlrecord.PostgreSQL
	if d.isSQLite() {
		kind = sqlrecord.SQLite
	}
	r, err := kind(d.DB, append([]sqlrecord.Option{sqlrecord.Table(d.records)}, opts...)...)
	require.NoError(t, err)
	return r
}

func (d *database) isSQLite() bool { return d.driver == "sqlite" }

// affect is the work: it writes one row by the attempt's transaction.
func (d *database) affect(ctx context.Context, name string, by int64) error {
	_, err := sqlrecord.Tx(ctx).ExecContext(ctx,
		"INSERT INTO "+d.effects+" (name, by) VALUES ($1, $2)", name, by)
	return err
}

// affectedBy is who has affected name, in order.
func (d *database) affectedBy(t *testing.T, name string) (by []int64) {
	t.Helper()
	rows, err := d.QueryContext(t.Context(),
		"SELECT by FROM "+d.effects+" WHERE name = $1 ORDER BY by", name)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	for rows.Next() {
		var one int64
		require.NoError(t, rows.Scan(&one))
		by = append(by, one)
	}
	require.NoError(t, rows.Err())
	return by
}

// rows is how many there are in the table of records.
func (d *database) rows(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, d.QueryRowContext(t.Context(), "SELECT count(*) FROM "+d.records).Scan(&n))
	return n
}
