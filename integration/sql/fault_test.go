package sql_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/lockmw/once/sqlrecord"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// A table that is missing or of another shape is told at once, with what to do, and so is a database
// that can't be written to.
func TestTableThatCantBeUsed(t *testing.T) {
	t.Parallel()
	told := func(t *testing.T, d *database) {
		t.Helper()
		_, err := once.Do(t.Context(), memoryKeeper(t), "a",
			func(context.Context) (int, error) { panic("it runs") }, once.RecordIn(d.recorder(t)),
			lockmw.Wait(2*time.Second))
		require.ErrorIs(t, err, renewer.ErrRejected)
		require.ErrorContains(t, err, "Recorder.Schema")
		require.ErrorContains(t, err, "the records' database")
		require.NotContains(t, err.Error(), "lock store")
	}
	onEach(t, func(t *testing.T, d *database) {
		whole := d.records
		d.records = "missing"
		told(t, d)
		d.records = whole
		for _, columns := range []string{
			"name", "name, fence, seq, data, ends", "name, term, fence, seq, data, ends",
		} {
			d.records += "x"
			d.run(t, "CREATE TABLE "+d.records+" AS SELECT "+columns+" FROM "+whole)
			told(t, d)
		}
	})
	for name, open := range map[string]func(*testing.T) (*database, string){
		"PostgreSQL": func(t *testing.T) (*database, string) {
			t.Helper()
			d := onPostgres(t)
			return d, d.dsn + " options='-c default_transaction_read_only=on'"
		},
		"SQLite": func(t *testing.T) (*database, string) {
			t.Helper()
			d := onSQLite(t)
			return d, d.dsn + "&_pragma=query_only(on)"
		},
	} {
		t.Run(name+", read-only", func(t *testing.T) {
			t.Parallel()
			d, dsn := open(t)
			told(t, d.by(t, dsn))
		})
	}
}

// A function that ends the transaction by itself has parted its effect from the record. It is told
// so at once, and is not run again: what it has committed would be there twice.
func TestFunctionEndsTheTransaction(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		k, recorder := memoryKeeper(t), once.RecordIn(d.recorder(t))
		for name, row := range map[string]struct {
			end    func(*sql.Tx) error
			answer error
			effect []int64
		}{
			"commits":            {(*sql.Tx).Commit, nil, []int64{1}},
			"commits, and fails": {(*sql.Tx).Commit, errWork, []int64{1}},
			"rolls back":         {(*sql.Tx).Rollback, nil, nil},
		} {
			runs := 0
			for call := range 2 {
				_, err := once.Do(t.Context(), k, name, func(ctx context.Context) (int, error) {
					runs++
					require.NoError(t, d.affect(ctx, name, int64(runs)))
					require.NoError(t, row.end(sqlrecord.Tx(ctx)))
					return 1, row.answer
				}, recorder, once.Retry(time.Millisecond, time.Second))
				require.ErrorIs(t, err, once.ErrGivenUp, name)
				if call == 0 {
					require.ErrorIs(t, err, renewer.ErrConfig)
					require.ErrorContains(t, err, "transaction itself")
					if row.answer != nil {
						require.ErrorIs(t, err, row.answer)
					}
				}
				require.Equal(t, row.effect, d.affectedBy(t, name))
				require.Equal(t, 1, runs)
			}
		}
	})
}

// A COMMIT that the database refuses is an attempt that has failed, without effect or record.
func TestACommitThatIsRefused(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		if d.isSQLite() {
			d = d.by(t, d.dsn+"&_pragma=foreign_keys(on)")
			d.SetMaxOpenConns(1) // all questions by the connection of the refused COMMIT
		}
		parents, children := d.effects+"_parents", d.effects+"_children"
		d.run(t, "CREATE TABLE "+parents+" (id INTEGER PRIMARY KEY)")
		d.run(t, "CREATE TABLE "+children+" (id INTEGER REFERENCES "+parents+
			" (id) DEFERRABLE INITIALLY DEFERRED)")
		runs := 0
		_, err := once.Do(t.Context(), memoryKeeper(t), "a", func(ctx context.Context) (int, error) {
			runs++
			_, err := sqlrecord.Tx(ctx).ExecContext(ctx, "INSERT INTO "+children+" VALUES (1)")
			return 1, err
		}, once.RecordIn(d.recorder(t)), once.MaxAttempts(1))
		require.ErrorIs(t, err, once.ErrAttemptsExhausted)
		require.Equal(t, 1, runs)
		var left int
		require.NoError(t, d.QueryRow("SELECT count(*) FROM "+children).Scan(&left))
		require.Zero(t, left)
	})
}

// A pool without a free connection is waited for no longer than Timeout, and the caller's end is
// the caller's.
func TestNoConnectionIsFree(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		r := d.recorder(t, sqlrecord.Timeout(50*time.Millisecond))
		d.SetMaxOpenConns(1)
		const within = "the database gave no connection or answer within Timeout (50ms)"
		taken, err := d.Conn(t.Context())
		require.NoError(t, err)
		never := func(context.Context) (store.Record, error) { panic("it runs") }
		term := store.Term{Name: "a", Fence: 1, TTL: time.Hour}

		_, err = r.Prepare(t.Context(), term)
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, within)
		err = r.Transact(t.Context(), never)
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		require.NotErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, within)
		require.ErrorContains(t, err, "begin a transaction: ")

		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = r.Read(gone, "a")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, r.Transact(gone, never), context.Canceled)
		require.NoError(t, taken.Close())
		_, err = d.recorder(t).Prepare(t.Context(), term)
		require.NoError(t, err)
	})
}

// A function that goes on when its caller has gone commits: what decides is the record.
func TestTheCallersEndDoesNotRollBack(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		r := d.recorder(t)
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, attempt(ctx, d, r, "a", 1, nothing, func() error {
			cancel()
			return nil
		}))
		require.Equal(t, []int64{1}, d.affectedBy(t, "a"))
	})
}
