package sql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/lib/pq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/webtest"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/fencedb"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// each are the ways of database/sql and of pgx by which a database is given to a test.
func onEachCarried(t *testing.T, f func(t *testing.T, w way, d *fenced)) {
	t.Helper()
	for _, name := range []string{"sqlc on pgx", "pgx/stdlib", "lib/pq", "MariaDB", "SQLite"} {
		w := ways()[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, w, w.openAccount(t, name))
		})
	}
}

// refuses fails the test unless both ways to write are refused with this advice, by
// nothing that is half done: the database can be used again.
func refuses(t *testing.T, ctx context.Context, r repository, kind error, advice string) {
	t.Helper()
	for _, err := range []error{
		r.Add(ctx, sql.TxOptions{}, noop, noop), r.AddAlone(ctx), r.AddReturning(ctx),
	} {
		require.ErrorIs(t, err, kind)
		require.ErrorContains(t, err, advice)
		require.Equal(t, 1, strings.Count(err.Error(), "lockbeat:"), err)
	}
	n, err := r.Sum(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
}

// What the database lacks is told at the first use, with what to do.
func TestCarriedFencesAreRejected(t *testing.T) {
	t.Parallel()
	onEachCarried(t, func(t *testing.T, w way, d *fenced) {
		under := holder(t, 1, "a")
		d.run(t, "DROP TABLE lockbeat_fences")
		refuses(t, under, w.repo(t, d, true), renewer.ErrRejected,
			"the table is missing: make it, by fencetx.")
		d.run(t, "CREATE TABLE lockbeat_fences (name VARCHAR(20) PRIMARY KEY)")
		refuses(t, under, w.repo(t, d, true), renewer.ErrRejected, "make it anew, by fencetx.")
		d.run(t, "DROP TABLE lockbeat_fences", d.schema)
		switch d.dialect() {
		case fencedb.PostgreSQL:
			d.run(t, "CREATE RULE none AS ON INSERT TO lockbeat_fences DO INSTEAD NOTHING")
			refuses(t, under, w.repo(t, d, true), renewer.ErrRejected, "make it anew")
			d.run(t, "DROP RULE none ON lockbeat_fences")
			r := w.repo(t, d.with(" default_transaction_read_only=on"), true)
			refuses(t, under, r, renewer.ErrRejected, "it is read-only: write at the primary")
			user := fmt.Sprint("user_", tables.Add(1))
			d.run(t, "CREATE ROLE "+user+" LOGIN",
				"DO $$BEGIN EXECUTE 'GRANT USAGE ON SCHEMA ' || current_schema() || ' TO "+
					user+"'; END$$", "GRANT SELECT, UPDATE ON accounts, entries TO "+user)
			r = w.repo(t, d.with(" user="+user), true)
			refuses(t, under, r, renewer.ErrRejected,
				"GRANT SELECT, INSERT, UPDATE ON lockbeat_fences")
			d.run(t, "GRANT SELECT, INSERT, UPDATE ON lockbeat_fences TO "+user)
			require.NoError(t, r.AddAlone(under))
		case fencedb.MySQL:
			r := w.repo(t, d, true)
			d.run(t, "RENAME TABLE lockbeat_fences TO kept")
			refuses(t, under, r, renewer.ErrRejected, "the table is missing")
			d.run(t, "RENAME TABLE kept TO lockbeat_fences",
				"ALTER TABLE lockbeat_fences ENGINE=MyISAM") // also if it was not there before
			refuses(t, under, r, renewer.ErrRejected, "its engine is MyISAM")
			d.run(t, "ALTER TABLE lockbeat_fences ENGINE=InnoDB")
		case fencedb.SQLite:
			r := sqlRepository{opened(t, fencedb.Connector(plainConnector{
				d.Driver(), d.dsn + "&_pragma=query_only(on)",
			}, fencedb.SQLite)), fencedb.SQLite}
			refuses(t, under, r, renewer.ErrRejected, "it is read-only")
		}
		require.NoError(t, w.repo(t, d, true).AddAlone(under))
	})
}

// with is the same database by other parameters.
func (d *fenced) with(more string) *fenced {
	other := *d
	other.dsn += more
	return &other
}

// A dialect that does not fit is told, whichever it is.
func TestCarriedFencesOfAnotherDialect(t *testing.T) {
	t.Parallel()
	onEachCarried(t, func(t *testing.T, w way, d *fenced) {
		if d.kind == "sqlc on pgx" {
			return // which has one
		}
		for _, dialect := range []fencedb.Dialect{
			fencedb.PostgreSQL, fencedb.MySQL, fencedb.SQLite,
		} {
			if dialect == d.dialect() {
				continue
			}
			r := sqlRepository{opened(t, fencedb.Connector(d.connector(t), dialect)), d.dialect()}
			refuses(t, holder(t, 1, "a"), r, renewer.ErrRejected, "the database is of another kind")
		}
	})
}

func TestConnectorsOfNothing(t *testing.T) {
	t.Parallel()
	d := fencedSQLite(t)
	for _, c := range []driver.Connector{
		fencedb.Connector(nil, fencedb.SQLite),
		fencedb.Connector((*pq.Connector)(nil), fencedb.PostgreSQL), fencedb.Connector(d.connector(t), 0),
		fencedb.Connector(d.connector(t), 4),
	} {
		err := opened(t, c).PingContext(t.Context())
		require.ErrorIs(t, err, renewer.ErrConfig)
	}
	_, err := fencedb.Open("none", "", fencedb.SQLite)
	require.ErrorContains(t, err, "unknown driver")
	db, err := fencedb.Open("sqlite", d.dsn, fencedb.SQLite)
	require.NoError(t, err)
	require.NoError(t, db.PingContext(t.Context()))
	require.NoError(t, db.Close())
}

// A context under very many locks is fenced by all of them.
func TestCarriedFencesOfManyLocks(t *testing.T) {
	t.Parallel()
	onEachCarried(t, func(t *testing.T, w way, d *fenced) {
		r := w.repo(t, d, true)
		under := func(token int64) context.Context {
			p := newProcess(t)
			ctx := t.Context()
			for i := range 4 {
				names := make([]string, 25)
				for j := range names {
					names[j] = fmt.Sprintf("lock%d.%d", i, j)
				}
				var leave func()
				ctx, leave = p.underIn(t, ctx, token, names...) //nolint:fatcontext // it is wanted
				t.Cleanup(leave)
			}
			return ctx
		}
		former, successor := under(1), under(2)
		require.NoError(t, r.Add(former, sql.TxOptions{}, noop, noop))
		require.NoError(t, r.AddAlone(former))
		require.NoError(t, w.repo(t, d, true).AddAlone(holder(t, 2, "lock3.7")))
		require.ErrorIs(t, r.AddAlone(former), renewer.ErrLost, "one of them is lost")
		require.NoError(t, r.Add(successor, sql.TxOptions{}, noop, noop))
	})
}

// Writes need a lock that counts, if the database requires one. What reads does not.
func TestWritesThatNeedALock(t *testing.T) {
	t.Parallel()
	onEachCarried(t, func(t *testing.T, w way, d *fenced) {
		r := w.repo(t, d, true, fencedb.Require(),
			fencedb.Only(func(name string) bool { return name == "a" }))
		refuses(t, t.Context(), r, lockmw.ErrNotHeld, "fencedb.Require")
		refuses(t, holder(t, 1, "b"), r, lockmw.ErrNotHeld, "fencedb.Require")
		require.NoError(t, r.Add(holder(t, 2, "a", "b"), sql.TxOptions{}, noop, noop))
		other := w.repo(t, d, true)
		require.NoError(t, other.AddAlone(holder(t, 1, "b")), "nothing was fenced by it")
		require.ErrorIs(t, other.AddAlone(holder(t, 1, "a")), renewer.ErrLost)
	})
}

// What the database has found late is a lost lock to whoever tells a client of it.
func TestALateWriteIsALostLock(t *testing.T) {
	t.Parallel()
	onEachCarried(t, func(t *testing.T, w way, d *fenced) {
		r := w.repo(t, d, true)
		require.NoError(t, r.AddAlone(holder(t, 2, "a")))
		late := holder(t, 1, "a")
		for _, err := range []error{
			r.Add(late, sql.TxOptions{}, noop, noop), r.AddAlone(late), r.AddReturning(late),
		} {
			require.Equal(t, adapter.RefusalLost, adapter.RefusalOf(err))
			require.Equal(t, http.StatusServiceUnavailable, httpmw.ErrorOf(err).Status)
			lost, ok := errors.AsType[*renewer.LostError](err)
			require.True(t, ok)
			require.Equal(t, "a", lost.Name)
		}
	})
}

func TestWritesOutsideAreRefused(t *testing.T) {
	t.Parallel()
	onEachCarried(t, func(t *testing.T, w way, d *fenced) {
		r := w.repo(t, d, true, fencedb.RefuseOutside())
		under := holder(t, 1, "a")
		for _, err := range []error{r.AddAlone(under), r.AddReturning(under)} {
			require.ErrorIs(t, err, renewer.ErrConfig)
			require.ErrorContains(t, err, "fencedb.RefuseOutside")
		}
		require.NoError(t, r.AddAlone(t.Context()))
		require.NoError(t, r.Add(under, sql.TxOptions{}, noop, noop))
	})
}

// The observer is told once of each: a slot, a transaction that was begun outside of the
// lock, and a lock that is waited for inside of one.
func TestWhatCarriesNoFenceIsTold(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pgx/stdlib", "MariaDB", "SQLite"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := ways()[name].openAccount(t, name)
			db := d.carrying(t)
			o := new(webtest.Faults)
			k := webtest.Keeper(t, memory.New(), func(c *renewer.Config) { c.Observer = o })
			under := func(ctx context.Context, name lockmw.Set, f func(context.Context) error) {
				t.Helper()
				require.NoError(t, lockmw.Run(ctx, k, name, f))
			}
			slot := lockmw.All(lockmw.Limit("limit", 2))
			read := func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "SELECT 1")
				return err
			}
			for range 2 {
				under(t.Context(), slot, func(ctx context.Context) error {
					return inTx(nil)(ctx, db)
				})
				tx, err := db.BeginTx(t.Context(), nil)
				require.NoError(t, err)
				under(t.Context(), lockmw.All("later"), func(ctx context.Context) error {
					return read(ctx, tx)
				})
				require.NoError(t, tx.Commit())
				under(t.Context(), lockmw.All("outer"), func(ctx context.Context) error {
					tx, err := db.BeginTx(ctx, nil)
					require.NoError(t, err)
					under(ctx, lockmw.All("outer"), func(ctx context.Context) error {
						return read(ctx, tx)
					})
					under(ctx, lockmw.All("inner"), func(context.Context) error { return nil })
					require.NoError(t, tx.Commit())
					under(ctx, lockmw.All("after"), func(ctx context.Context) error {
						return inTx(nil)(ctx, db)
					})
					return nil
				})
			}
			var told []string
			for _, f := range o.All() {
				require.ErrorIs(t, f.Err, renewer.ErrConfig)
				told = append(told, f.Doing+" "+f.Name)
			}
			require.Equal(t, []string{
				"fence a transaction limit", "fence a transaction later", "wait for a lock inner",
			}, told)
			assert.Contains(t, o.All()[2].Err.Error(), "transaction of fencedb")
			assert.Contains(t, o.All()[2].Err.Error(), "take it further out", "the cure")
		})
	}
}

// A row that was deleted under a live lease is raised again, and one that is lower, as
// after a backup was read back.
func TestFencesThatAreTakenAway(t *testing.T) {
	t.Parallel()
	onEachCarried(t, func(t *testing.T, w way, d *fenced) {
		r, under := w.repo(t, d, true), holder(t, 7, "a")
		require.NoError(t, r.AddAlone(under))
		for _, s := range []string{
			"DELETE FROM lockbeat_fences", "UPDATE lockbeat_fences SET token = 3",
			"DELETE FROM lockbeat_fences WHERE NOT claim",
			"DELETE FROM lockbeat_fences WHERE claim",
			"UPDATE lockbeat_fences SET token = 3 WHERE NOT claim",
		} {
			if strings.Contains(s, "claim") && d.dialect() != fencedb.PostgreSQL {
				continue
			}
			d.run(t, s)
			require.NoError(t, r.Add(under, sql.TxOptions{}, noop, noop), s)
			require.ErrorIs(t, w.repo(t, d, true).AddAlone(holder(t, 6, "a")), renewer.ErrLost, s)
		}
	})
}

// A second pool under the same lock does not wait for a transaction of the first, and
// nothing waits for one that another pool has raised for.
func TestTwoPoolsUnderOneLock(t *testing.T) {
	t.Parallel()
	onEachCarried(t, func(t *testing.T, w way, d *fenced) {
		if d.kind == "SQLite" {
			return // where one writes at a time
		}
		one, two, under := w.repo(t, d, true), w.repo(t, d, true), holder(t, 1, "a")
		short, cancel := context.WithTimeout(under, 10*time.Second)
		defer cancel()
		require.NoError(t, one.Add(under, sql.TxOptions{}, func() {
			require.NoError(t, two.AddAlone(short))
		}, noop))
	})
}

// A lock's name is not the claim of another.
func TestNamesAreNoClaims(t *testing.T) {
	t.Parallel()
	d := ways()["sqlc on pgx"].openAccount(t, "sqlc on pgx")
	db := openPool(t, d)
	begin := func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, db, func(pgx.Tx) error { return nil })
	}
	for i, name := range []string{
		"a", "a\x00claim", "aclaim", "\xff", "'", `\`, strings.Repeat("é", 256),
	} {
		token := int64(100 + i)
		require.NoError(t, begin(holder(t, token, name)))
		_, err := db.Begin(holder(t, token-1, name))
		require.ErrorIs(t, err, renewer.ErrLost)
	}
	require.NoError(t, begin(holder(t, 100, "a")))
}
