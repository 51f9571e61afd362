package sql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"

	"github.com/lockbeat/lockbeat/lockmw/fencedb"
	"github.com/lockbeat/lockbeat/lockmw/fencetx"
	"github.com/lockbeat/lockbeat/renewer"
)

// entries is how many there are.
func (d *fenced) entries(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, d.QueryRowContext(t.Context(), "SELECT count(*) FROM entries").Scan(&n))
	return n
}

// undone are statements that undo the whole transaction: most of them since they fail.
func undone(t *testing.T, d *fenced) map[string]func(context.Context, *sql.Tx) error {
	t.Helper()
	if d.dialect() == fencedb.MySQL {
		return map[string]func(context.Context, *sql.Tx) error{
			"a deadlock": deadlock(t, d),
			"a procedure": func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "CALL ends()")
				return errors.Join(err, errors.New("which ends it"))
			},
		}
	}
	const twice = "INSERT OR ROLLBACK INTO accounts (id, n) VALUES ('7', 0)"
	return map[string]func(context.Context, *sql.Tx) error{
		"a statement": func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, twice)
			return err
		},
		"rows": func(ctx context.Context, tx *sql.Tx) error {
			rows, err := tx.QueryContext(ctx, twice+" RETURNING id")
			if err != nil {
				return err
			}
			for rows.Next() {
				continue
			}
			return errors.Join(rows.Err(), rows.Close())
		},
		"prepared": func(ctx context.Context, tx *sql.Tx) error {
			s, err := tx.PrepareContext(ctx, twice)
			if err != nil {
				return err
			}
			_, err = s.ExecContext(ctx)
			return errors.Join(err, s.Close())
		},
	}
}

var errWrong = errors.New("which is wrong")

// deadlock has MariaDB undo the transaction, since that has written less than the other.
func deadlock(t *testing.T, d *fenced) func(context.Context, *sql.Tx) error {
	t.Helper()
	const update = "UPDATE accounts SET n = n + 1 WHERE id = ?"
	d.run(t, "INSERT INTO accounts (id, n) VALUES ('8', 0)")
	return func(ctx context.Context, tx *sql.Tx) error {
		other, err := d.BeginTx(t.Context(), nil)
		if err != nil {
			return err
		}
		for range 30 { // so that it is not the victim
			if _, err := other.ExecContext(ctx, update, "8"); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, update, "7"); err != nil {
			return err
		}
		over := make(chan error, 1)
		go func() { // each waits for the other, whichever is first
			_, err := other.ExecContext(context.WithoutCancel(ctx), update, "7")
			over <- errors.Join(err, other.Rollback())
		}()
		_, err = tx.ExecContext(ctx, update, "8")
		if other := <-over; other != nil {
			return fmt.Errorf("the other is undone: %w", errWrong)
		}
		return err
	}
}

// MySQL and SQLite undo a transaction by themselves if some statements fail, and would
// commit each that follows, with no fence.
func TestATransactionThatTheDatabaseHasUndone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"MariaDB", "SQLite"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := ways()[name].openAccount(t, name)
			db := opened(t, fencedb.Connector(procedures{d.connector(t)}, d.dialect()))
			under := holder(t, 1, "a")
			for name, fails := range undone(t, d) {
				tx, err := db.BeginTx(under, nil)
				require.NoError(t, err)
				_, err = tx.ExecContext(under, insert)
				require.NoError(t, err, name)
				err = fails(under, tx)
				require.Error(t, err, name)
				require.NotErrorIs(t, err, errWrong)
				for range 2 {
					_, err = tx.ExecContext(under, insert)
					assert.ErrorIs(t, err, renewer.ErrConfig, name)
					assert.ErrorContains(t, err, "roll back and run the transaction again", name)
				}
				_ = tx.Rollback() // which SQLite says is not open
				assert.Zero(t, d.entries(t), name)
			}
			require.NoError(t, inTx(nil, insert)(under, db))
			require.Equal(t, 1, d.entries(t), "the connection is as new")
		})
	}
}

// A statement that fails and undoes itself alone leaves the transaction as it was.
func TestATransactionGoesOnBehindAnError(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"MariaDB", "SQLite"} {
		d := ways()[name].openAccount(t, name)
		db, under := d.carrying(t), holder(t, 1, "a")
		tx, err := db.BeginTx(under, nil)
		require.NoError(t, err)
		for range 2 {
			_, err = tx.ExecContext(under, "INSERT INTO accounts (id, n) VALUES ('7', 0)")
			require.Error(t, err)
			require.NotErrorIs(t, err, renewer.ErrConfig)
			_, err = tx.ExecContext(under, insert)
			require.NoError(t, err)
		}
		require.NoError(t, tx.Commit())
		require.Equal(t, 2, d.entries(t))
	}
}

// A database in memory is gone with its connection.
func TestAStatementThatIsUndoneKeepsItsConnection(t *testing.T) {
	t.Parallel()
	db := opened(t, fencedb.Connector(plainConnector{&sqlite.Driver{}, ":memory:"}, fencedb.SQLite))
	db.SetMaxOpenConns(1)
	_, err := db.ExecContext(t.Context(), fencetx.SQLiteSchema+"CREATE TABLE a (id INT PRIMARY KEY)")
	require.NoError(t, err)
	under := holder(t, 1, "a")
	const once = "INSERT OR ROLLBACK INTO a VALUES (1)"
	require.NoError(t, execs(once)(under, db))
	for _, again := range []func(context.Context, *sql.DB) error{
		execs(once), queries(once + " RETURNING id"), prepared(once, false),
	} {
		require.ErrorContains(t, again(under, db), "UNIQUE constraint failed")
	}
	require.NoError(t, execs("INSERT INTO a VALUES (2)")(under, db))
}

// To raise a fence takes a transaction: in one that is open it would commit that.
func TestATransactionThatIsOpenIsNotCommitted(t *testing.T) {
	t.Parallel()
	onEachCarried(t, func(t *testing.T, _ way, d *fenced) {
		under := holder(t, 1, "a")
		if d.kind == "sqlc on pgx" {
			c, err := openPool(t, d).Acquire(t.Context())
			require.NoError(t, err)
			defer c.Release()
			for _, s := range []string{"BEGIN", insert} {
				_, err = c.Exec(t.Context(), s)
				require.NoError(t, err)
			}
			_, err = c.Begin(under)
			require.ErrorContains(t, err, "end the transaction that is open")
			_, err = c.Exec(under, "ROLLBACK")
			require.NoError(t, err)
			require.Zero(t, d.entries(t))
			return
		}
		c, err := d.carrying(t).Conn(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		do := func(ctx context.Context, statements ...string) {
			t.Helper()
			for _, s := range statements {
				_, err := c.ExecContext(ctx, s)
				require.NoError(t, err)
			}
		}
		do(t.Context(), "BEGIN", insert, "SAVEPOINT b", "RELEASE SAVEPOINT b")
		_, err = c.BeginTx(under, nil)
		require.ErrorContains(t, err, "end the transaction that is open")
		do(under, insert) // of which the observer is told
		do(under, "ROLLBACK")
		require.Zero(t, d.entries(t))
		tx, err := c.BeginTx(under, nil)
		require.NoError(t, err, "and now it is over")
		_, err = c.BeginTx(under, nil)
		require.ErrorContains(t, err, "end the transaction that is open")
		require.NoError(t, tx.Rollback())
	})
}

// What looks like a transaction and is none has no writes in it that pass unfenced.
func TestATransactionThatIsNoneByText(t *testing.T) {
	t.Parallel()
	for name, statements := range map[string][]string{
		"pgx/stdlib": {"BEGIN nothing"},
		"lib/pq":     {"BEGIN", "COMMIT", "SAVEPOINT a"},
		"MariaDB":    {"BEGIN", "COMMIT", "SAVEPOINT a"},
		"SQLite":     {"SAVEPOINT a", "SAVEPOINT b", "RELEASE b", "RELEASE a", "BEGIN nothing"},
	} {
		w := ways()[name]
		d := w.openAccount(t, name)
		r, _ := w.repo(t, d, true).(sqlRepository)
		late := holder(t, 1, "a")
		require.NoError(t, inTx(nil)(holder(t, 2, "a"), r.db))
		c, err := r.db.Conn(t.Context())
		require.NoError(t, err)
		for _, s := range statements {
			_, _ = c.ExecContext(t.Context(), s) // it may fail
		}
		_, err = c.ExecContext(late, insert)
		require.ErrorIs(t, err, renewer.ErrLost, name)
		require.NoError(t, c.Close())
	}
}

// badCommit is SQLite by a link that breaks when a COMMIT is done.
type (
	badCommit   struct{ driver.Connector }
	badConn     struct{ fullConn }
	badCommitTx struct{ driver.Tx }
	fullConn    interface {
		driver.Conn
		driver.ConnBeginTx
		driver.ExecerContext
		driver.QueryerContext
	}
)

func (c badCommit) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	with, _ := inner.(fullConn)
	return badConn{with}, err
}

// procedures has one, which the test's MariaDB can't have, and panics if told so.
type (
	procedures    struct{ driver.Connector }
	procedureConn struct{ fullConn }
)

func (c procedures) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	with, _ := inner.(fullConn)
	return procedureConn{with}, err
}

func (c procedureConn) ExecContext(
	ctx context.Context, query string, args []driver.NamedValue,
) (driver.Result, error) {
	switch query {
	case "CALL ends()":
		query = "ROLLBACK"
	case "PANIC":
		panic("the driver's")
	}
	return c.fullConn.ExecContext(ctx, query, args)
}

func (c badConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.fullConn.BeginTx(ctx, o)
	return badCommitTx{tx}, err
}

func (t badCommitTx) Commit() error { return errors.Join(t.Tx.Commit(), driver.ErrBadConn) }

// database/sql runs a statement again if the connection is bad, which may be done.
func TestAStatementIsNotCommittedTwice(t *testing.T) {
	t.Parallel()
	d := ways()["SQLite"].openAccount(t, "SQLite")
	r := sqlRepository{opened(t, fencedb.Connector(
		badCommit{plainConnector{&sqlite.Driver{}, d.dsn}}, fencedb.SQLite)), fencedb.SQLite}
	under := holder(t, 1, "a")
	for i, write := range []func(context.Context) error{r.AddAlone, r.AddReturning} {
		err := write(under)
		require.ErrorContains(t, err, "it is unknown whether that was done")
		require.NotErrorIs(t, err, driver.ErrBadConn)
		n, err := r.Sum(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(i+1), n, "done once")
	}
}

// Nor is a transaction left open on a connection of the pool by a driver that panics:
// what others write by that would be in it.
func TestAPanicOfTheDriverLeavesNoTransaction(t *testing.T) {
	t.Parallel()
	d := ways()["SQLite"].openAccount(t, "SQLite")
	db := opened(t, fencedb.Connector(
		procedures{plainConnector{&sqlite.Driver{}, d.dsn}}, fencedb.SQLite))
	db.SetMaxOpenConns(1)
	require.PanicsWithValue(t, "the driver's", func() {
		_, _ = db.ExecContext(holder(t, 1, "a"), "PANIC")
	})
	_, err := db.ExecContext(t.Context(), insert)
	require.NoError(t, err)
	require.Equal(t, 1, d.entries(t))
}

// A lock that is taken inside of another one's transaction waits for none of that.
func TestANestedLockDoesNotWaitForItsOwnHolder(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pgx/stdlib", "lib/pq", "MariaDB"} {
		d := ways()[name].openAccount(t, name)
		db, p := d.carrying(t), newProcess(t)
		outer, leave := p.under(t, 1, "b")
		defer leave()
		tx, err := db.BeginTx(outer, nil)
		require.NoError(t, err)
		inner, leave := p.underIn(t, outer, 1, "a")
		defer leave()
		short, cancel := context.WithTimeout(inner, 10*time.Second)
		defer cancel()
		_, err = db.ExecContext(short, insert)
		require.NoError(t, err, name)
		require.NoError(t, tx.Commit())
	}
}

// By name, in a transaction that carries the fence, there is nothing left to do. Beside
// it, by a connection that carries none, it waits for its end.
func TestAFenceByNameBesideACarriedOne(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pgx/stdlib", "MariaDB", "SQLite"} {
		d := ways()[name].openAccount(t, name)
		db, under := d.carrying(t), holder(t, 1, "a")
		byName := map[fencedb.Dialect]func(context.Context, *sql.Tx) error{
			fencedb.PostgreSQL: func(ctx context.Context, tx *sql.Tx) error {
				return fencetx.PostgreSQL(ctx, tx, "a")
			},
			fencedb.MySQL: func(ctx context.Context, tx *sql.Tx) error {
				return fencetx.MySQL(ctx, tx, "a")
			},
			fencedb.SQLite: func(ctx context.Context, tx *sql.Tx) error {
				return fencetx.SQLite(ctx, tx, "a")
			},
		}[d.dialect()]
		carried, err := db.BeginTx(under, nil)
		require.NoError(t, err)
		require.NoError(t, byName(under, carried), name)
		short, cancel := context.WithTimeout(under, 100*time.Millisecond)
		beside, err := d.BeginTx(short, nil)
		require.NoError(t, err)
		require.Error(t, byName(short, beside), name)
		cancel()
		_ = beside.Rollback()
		require.NoError(t, carried.Commit())
		beside, err = d.BeginTx(under, nil)
		require.NoError(t, err)
		require.NoError(t, byName(under, beside), name)
		require.NoError(t, beside.Commit())
	}
}
