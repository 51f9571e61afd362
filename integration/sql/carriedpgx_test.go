package sql_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/fencedb"
	"github.com/lockbeat/lockbeat/lockmw/fencedb/fencedpgx"
	"github.com/lockbeat/lockbeat/renewer"
)

func openPool(t *testing.T, d *fenced, opts ...fencedb.Option) *fencedpgx.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), d.dsn)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return fencedpgx.New(pool, opts...)
}

// openMode opens d by pgx, whose statements are sent by a mode, bare and fenced.
func openMode(
	t *testing.T, d *fenced, mode pgx.QueryExecMode,
) (bare *pgxpool.Pool, db *fencedpgx.Pool) {
	t.Helper()
	config, err := pgxpool.ParseConfig(d.dsn)
	require.NoError(t, err)
	config.ConnConfig.DefaultQueryExecMode = mode
	bare, err = pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(bare.Close)
	return bare, fencedpgx.New(bare)
}

// rewriter sends another text than the one that it is given.
type rewriter string

func (r rewriter) RewriteQuery(context.Context, *pgx.Conn, string, []any) (string, []any, error) {
	return string(r), nil, nil
}

// pgx's calls outside of a transaction are each one transaction with their fence; what
// its options and rewriters do, they do as well.
func TestStatementsOfPgx(t *testing.T) {
	t.Parallel()
	const insertOf = "INSERT INTO entries VALUES "
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		d := ways()["sqlc on pgx"].openAccount(t, "sqlc on pgx")
		_, db := openMode(t, d, mode)
		late, now := holder(t, 1, "a"), holder(t, 2, "a")
		exec := func(query string, args ...any) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				_, err := db.Exec(ctx, query, args...)
				return err
			}
		}
		scan := func(query string, args ...any) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				var s string
				return db.QueryRow(ctx, query, args...).Scan(&s)
			}
		}
		batch := func(queries ...string) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				b := &pgx.Batch{}
				for _, q := range queries {
					b.Queue(q)
				}
				return db.SendBatch(ctx, b).Close()
			}
		}
		for name, c := range map[string]struct {
			do   func(ctx context.Context) error
			want string
		}{
			"exec":          {exec(insert), isFenced},
			"named":         {exec(insertOf+"(@a)", pgx.NamedArgs{"a": "x"}), isFenced},
			"with a mode":   {exec(insertOf+"($1)", pgx.QueryExecModeExec, "x"), isFenced},
			"rows":          {scan(insert + " RETURNING id"), isFenced},
			"rows, a mode":  {scan(insertOf+"($1) RETURNING id", pgx.QueryExecModeExec, "x"), isFenced},
			"a query":       {scan("SELECT max(id) FROM accounts"), passes},
			"no row":        {scan("UPDATE accounts SET n = 1 WHERE id = '' RETURNING id"), "no rows"},
			"that fails":    {exec("INSERT INTO none VALUES (1)"), "does not exist"},
			"rows, failing": {scan("INSERT INTO none VALUES (1) RETURNING id"), "does not exist"},
			"BEGIN":         {exec("begin"), "by BeginTx"},
			"VACUUM":        {exec("VACUUM entries"), "under no lock"},
			"DO":            {exec("DO $$BEGIN " + insert + "; END$$"), isFenced},
			"DO, that commits": {
				exec("DO $$BEGIN " + insert + "; COMMIT; " + insert + "; END$$"),
				"invalid transaction termination",
			},
			"a batch that ends": {batch(insert, "COMMIT", insert), "send the batch in it"},
			"a batch that may":  {batch("DO $$BEGIN COMMIT; END$$", insert), "send the batch in it"},
			"one that must":     {batch("DISCARD ALL", insert), "send the batch in it"},
			"a batch of names":  {batch("name", insert), "send the batch in it"},
			"rewritten":         {exec("SELECT 1", rewriter(insert)), isFenced},
			"rows, rewritten":   {scan("SELECT 1", rewriter(insert+" RETURNING id")), isFenced},
			"a batch of reads":  {batch("SELECT 1", "SHOW work_mem"), passes},
			"a batch, rewritten": {func(ctx context.Context) error {
				b := &pgx.Batch{}
				b.Queue("SELECT 1", rewriter(insert))
				return db.SendBatch(ctx, b).Close()
			}, "send the batch in it"},
			"a batch": {func(ctx context.Context) error {
				b := &pgx.Batch{}
				b.Queue(insert)
				b.Queue("SELECT 1").QueryRow(func(row pgx.Row) error {
					var n int
					return row.Scan(&n)
				})
				return db.SendBatch(ctx, b).Close()
			}, isFenced},
			"read-only": {func(ctx context.Context) error {
				return pgx.BeginTxFunc(ctx, db, pgx.TxOptions{AccessMode: pgx.ReadOnly},
					func(pgx.Tx) error { return nil })
			}, passes},
			"a connection": {func(ctx context.Context) error {
				return db.AcquireFunc(ctx, func(c *fencedpgx.PoolConn) error {
					if _, err := c.Exec(ctx, insert); err != nil {
						return err
					}
					return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
						_, err := c.Exec(ctx, insert) // in the transaction
						_, ends := c.Exec(ctx, "COMMIT")
						assert.ErrorContains(t, ends, "by Commit or Rollback")
						b := &pgx.Batch{}
						b.Queue("COMMIT")
						assert.ErrorContains(t, c.SendBatch(ctx, b).Close(), "by Commit or Rollback")
						return err
					})
				})
			}, isFenced},
		} {
			err, lost := c.do(now), c.do(late)
			switch c.want {
			case isFenced:
				assert.NoError(t, err, name)
				assert.ErrorIs(t, lost, renewer.ErrLost, name)
			case passes:
				assert.NoError(t, err, name)
				assert.NoError(t, lost, name)
			default:
				assert.ErrorContains(t, err, c.want, name)
			}
		}
		require.Zero(t, db.Stat().AcquiredConns())
	}
}

// The first transactions of a lease come by all connections of a pool at once, by some
// that are in hand, and by some that are not.
func TestAPoolUnderTheFirstUseOfALock(t *testing.T) {
	t.Parallel()
	for _, most := range []int32{1, 2} {
		d := ways()["sqlc on pgx"].openAccount(t, "sqlc on pgx")
		config, err := pgxpool.ParseConfig(d.dsn)
		require.NoError(t, err)
		config.MaxConns = most
		bare, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(bare.Close)
		db := fencedpgx.New(bare)
		noTx := func(pgx.Tx) error { return nil }
		for i := range 20 {
			ctx, cancel := context.WithTimeout(holder(t, int64(i+1), "a"), 10*time.Second)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { assert.NoError(t, pgx.BeginFunc(ctx, db, noTx)) })
				all.Go(func() {
					assert.NoError(t, db.AcquireFunc(ctx, func(c *fencedpgx.PoolConn) error {
						return pgx.BeginFunc(ctx, c, noTx)
					}))
				})
				all.Go(func() {
					_, err := db.Exec(ctx, insert)
					assert.NoError(t, err)
				})
			}
			all.Wait()
			cancel()
			if t.Failed() {
				return
			}
		}
	}
}

// What is wrong with a statement of the program's is not told as the fence's.
func TestErrorsOfStatementsAreNotTheFences(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		_, db := openMode(t, ways()["sqlc on pgx"].openAccount(t, "sqlc on pgx"), mode)
		under, late := holder(t, 2, "a"), holder(t, 1, "a")
		for _, s := range []struct {
			query string
			args  []any
		}{
			{"INSERT INTO none VALUES (1)", nil},
			{"INSERT INTO entries VALUES (", nil},
			{"INSERT INTO entries VALUES ($1)", []any{func() {}}},
			{"INSERT INTO accounts (id, n) VALUES ($1, 0)", []any{"7"}},
		} {
			_, err := db.Exec(under, s.query, s.args...)
			require.Error(t, err)
			require.NotContains(t, err.Error(), "lockbeat", "%s, %v", s.query, mode)
			_, err = db.Exec(late, s.query, s.args...)
			require.ErrorIs(t, err, renewer.ErrLost, "%s, %v", s.query, mode)
			for _, args := range [][]any{s.args, append([]any{mode}, s.args...)} {
				rows, err := db.Query(under, s.query, args...)
				if err == nil { // else it need not be closed
					rows.Close()
				}
				require.Error(t, rows.Err())
				require.NotContains(t, rows.Err().Error(), "lockbeat", "%s, %v", s.query, mode)
			}
			require.Eventually(t, func() bool { return db.Stat().AcquiredConns() == 0 },
				5*time.Second, time.Millisecond, s.query)
		}
	}
}

// What was sent with its fence may be done although the context has ended.
func TestAnAnswerThatDoesNotCome(t *testing.T) {
	t.Parallel()
	d := ways()["sqlc on pgx"].openAccount(t, "sqlc on pgx")
	_, db := openMode(t, d, pgx.QueryExecModeExec)
	under := holder(t, 1, "a")
	_, err := db.Exec(under, insert)
	require.NoError(t, err)
	other, err := d.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = other.ExecContext(t.Context(), "SELECT FROM lockbeat_fences FOR UPDATE")
	require.NoError(t, err)
	short, cancel := context.WithTimeout(under, 100*time.Millisecond)
	defer cancel()
	_, err = db.Exec(short, insert)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "it is unknown whether that was done")
	require.NoError(t, other.Rollback())
}

// Under no lock a row is pgx's own, which refuses what would be overwritten.
func TestARowUnderNoLock(t *testing.T) {
	t.Parallel()
	bare, db := openMode(t, ways()["sqlc on pgx"].openAccount(t, "sqlc on pgx"),
		pgx.QueryExecModeExec)
	const query = "SELECT 'a'::bytea"
	var text pgtype.DriverBytes
	want := bare.QueryRow(t.Context(), query).Scan(&text)
	require.Error(t, want)
	require.EqualError(t, db.QueryRow(t.Context(), query).Scan(&text), want.Error())
}

func TestPoolsOfNothing(t *testing.T) {
	t.Parallel()
	require.PanicsWithValue(t, "lockbeat: fencedpgx.New needs a pool",
		func() { fencedpgx.New(nil) })
	require.PanicsWithValue(t, "lockbeat: fencedpgx.NewConn needs a connection",
		func() { fencedpgx.NewConn(nil) })
}
