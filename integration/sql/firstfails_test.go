package sql_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/pgtest"
	"github.com/lockbeat/lockbeat/lockmw/fencedb"
	"github.com/lockbeat/lockbeat/lockmw/fencetx"
	"github.com/lockbeat/lockbeat/renewer"
)

// hasty is the same database by connections that wait for a lock for a moment.
func (d *fenced) hasty() *fenced {
	switch d.dialect() {
	case fencedb.PostgreSQL:
		return d.with(" lock_timeout=50")
	case fencedb.MySQL:
		return d.with("&innodb_lock_wait_timeout=1")
	default:
		other := *d
		other.dsn = strings.Replace(d.dsn, "busy_timeout(10000)", "busy_timeout(50)", 1)
		return &other
	}
}

// A lease reads nothing before former holders are refused: where one is still in the way, the
// read fails, and can be run again.
func TestAFirstReadThatHasToWaitFails(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pgx/stdlib", "lib/pq", "MariaDB", "SQLite"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openWriters(t, name)
			patient, _ := ways()[name].repo(t, d, true).(sqlRepository)
			r, _ := ways()[name].repo(t, d.hasty(), true).(sqlRepository)
			token := int64(1)
			for way, read := range map[string]func(context.Context, *sql.DB) error{
				"by itself": queries(readAccount),
				"read-only": inTx(&sql.TxOptions{ReadOnly: true}, readAccount),
			} {
				former, next := holder(t, token, "a"), holder(t, token+1, "a")
				tx, err := patient.db.BeginTx(former, nil)
				require.NoError(t, err)
				_, err = tx.ExecContext(former, insert)
				require.NoError(t, err)
				require.ErrorContains(t, read(next, r.db), "run the transaction again", way)
				require.NoError(t, tx.Commit())
				require.NoError(t, read(next, r.db), way)
				require.ErrorIs(t, inTx(nil, insert)(former, patient.db), renewer.ErrLost, way)
				token += 2
			}
		})
	}
}

// Nor does it after a raise on a connection that the server has ended meanwhile.
func TestAFirstReadOnAConnectionThatHasEnded(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pgx/stdlib", "lib/pq"} {
		d := openWriters(t, name)
		r, _ := ways()[name].repo(t, d, true).(sqlRepository)
		r.db.SetMaxOpenConns(1)
		former, next := holder(t, 1, "a"), holder(t, 2, "a")
		require.NoError(t, inTx(nil)(former, r.db), name)
		_, err := d.ExecContext(t.Context(), "SELECT pg_terminate_backend(pid, 5000) FROM "+
			"pg_stat_activity WHERE pid <> pg_backend_pid() AND application_name = "+
			"current_setting('application_name')")
		require.NoError(t, err)
		require.NoError(t, queries(readAccount)(next, r.db), name)
		require.ErrorIs(t, inTx(nil)(former, r.db), renewer.ErrLost, name)
	}
}

// What a lease has read stays read when the server crashes, however late it writes to its disk.
func TestWhatWasReadOutlivesACrash(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, "wal_writer_delay=10s")
	plain, err := pq.NewConnector(s.DSN())
	require.NoError(t, err)
	bare := opened(t, plain)
	_, err = bare.ExecContext(t.Context(), fencetx.PostgreSQLSchema)
	require.NoError(t, err)
	for token := int64(1); token < 7; token += 2 { // a server that has slept may write at once
		former, next := holder(t, token, "a"), holder(t, token+1, "a")
		db := opened(t, fencedb.Connector(plain, fencedb.PostgreSQL))
		require.NoError(t, inTx(nil)(former, db))
		require.NoError(t, queries("SELECT 1")(next, db))
		require.NoError(t, s.Restart())
		again := opened(t, fencedb.Connector(plain, fencedb.PostgreSQL))
		require.Eventually(t, func() bool { return again.PingContext(t.Context()) == nil },
			30*time.Second, 10*time.Millisecond)
		require.ErrorIs(t, inTx(nil)(former, again), renewer.ErrLost)
	}
}

// A read beside a transaction of the same lease waits for none.
func TestAReadBesideOnesOwnTransaction(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pgx/stdlib", "MariaDB", "SQLite"} {
		r, _ := ways()[name].repo(t, openWriters(t, name).hasty(), true).(sqlRepository)
		under := holder(t, 1, "a")
		tx, err := r.db.BeginTx(under, nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(under, insert)
		require.NoError(t, err)
		require.NoError(t, queries(readAccount)(under, r.db), name)
		require.NoError(t, tx.Commit())
	}
}

// A connection with a transaction that is always open has no fence, and is told.
func TestConnectionsWithoutAutocommit(t *testing.T) {
	t.Parallel()
	d := openWriters(t, "MariaDB")
	r := sqlRepository{d.with("&autocommit=0").carrying(t), d.dialect()}
	refuses(t, holder(t, 1, "a"), r, renewer.ErrConfig, "leave autocommit on")
	err := queries(readAccount)(holder(t, 1, "a"), r.db)
	require.ErrorContains(t, err, "leave autocommit on")
}

// A transaction that was begun by a text that does not look so is not committed by the first
// write under a lock.
func TestATransactionOfAHiddenText(t *testing.T) {
	t.Parallel()
	d := openWriters(t, "MariaDB")
	db := d.carrying(t)
	before := d.state(t)
	c, err := db.Conn(t.Context())
	require.NoError(t, err)
	for _, s := range []string{"EXECUTE IMMEDIATE 'START TRANSACTION'", insert} {
		_, err := c.ExecContext(t.Context(), s)
		require.NoError(t, err)
	}
	_, err = c.ExecContext(holder(t, 1, "a"), insert)
	require.NoError(t, err)
	_, err = c.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.Equal(t, before, d.state(t))
}

// One statement whose arguments a driver could not put into its text does not have all others
// prepared.
func TestArgumentsThatDoNotFitOnce(t *testing.T) {
	t.Parallel()
	d := openWriters(t, "MariaDB")
	db := d.with("&interpolateParams=true").carrying(t)
	db.SetMaxOpenConns(1)
	under := holder(t, 1, "a")
	require.Error(t, execs("INSERT INTO entries (id) VALUES (?)", "a", "b")(under, db))
	const two = "INSERT INTO entries (id) VALUES (?); INSERT INTO entries (id) VALUES (?)"
	require.NoError(t, execs(two, "a", "b")(under, db))
}

// Rows that are not as the caller has asked for are closed, and the statement is done, as on
// pgx's own pool.
func TestRowsThatDoNotFit(t *testing.T) {
	t.Parallel()
	d := ways()["sqlc on pgx"].openAccount(t, "sqlc on pgx")
	bare, db := openMode(t, d, pgx.QueryExecModeCacheStatement)
	under := holder(t, 1, "a")
	count := func() (n int) {
		row := bare.QueryRow(t.Context(), "SELECT count(*) FROM entries")
		require.NoError(t, row.Scan(&n))
		return n
	}
	const query = "INSERT INTO entries VALUES ('x') RETURNING id"
	for i, args := range [][]any{nil, {pgx.QueryExecModeExec}} {
		rows, err := db.Query(under, query, args...)
		require.NoError(t, err)
		require.True(t, rows.Next())
		var n int
		require.Error(t, rows.Scan(&n))
		require.Eventually(t, func() bool { return db.Stat().AcquiredConns() == 0 },
			5*time.Second, time.Millisecond, "%v", args)
		require.Error(t, db.QueryRow(under, query, args...).Scan(&n))
		require.Equal(t, 2*(i+1), count(), "%v", args)
	}
}

// What was not even sent is not done, and its error says no other.
func TestAStatementThatWasNotSent(t *testing.T) {
	t.Parallel()
	d := ways()["sqlc on pgx"].openAccount(t, "sqlc on pgx")
	db := openPool(t, d.with(" pool_max_conns=1"))
	under := holder(t, 1, "a")
	_, err := db.Exec(under, insert)
	require.NoError(t, err)
	over, cancel := context.WithCancel(under)
	cancel()
	_, err = db.Exec(over, insert)
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, err.Error(), "unknown")
	c, err := db.Acquire(t.Context())
	require.NoError(t, err)
	defer c.Release()
	short, cancel := context.WithTimeout(under, 20*time.Millisecond)
	defer cancel()
	_, err = db.Exec(short, insert)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotContains(t, err.Error(), "unknown")
}
