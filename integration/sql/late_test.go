package sql_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/lockmw/once/sqlrecord"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

const rounds = 10

// attempt is one by the holder of a token: it begins, and has its effect and its record, with what
// happens in between.
func attempt(
	ctx context.Context, d *database, r sqlrecord.Recorder, name string, fence int64,
	before, within func() error,
) error {
	if _, err := r.Prepare(ctx, store.Term{Name: name, Fence: fence, TTL: time.Hour}); err != nil {
		return err
	}
	if err := before(); err != nil {
		return err
	}
	return r.Transact(ctx, func(ctx context.Context) (store.Record, error) {
		if err := d.affect(ctx, name, fence); err != nil {
			return store.Record{}, err
		}
		return store.Record{
			Name: name, Fence: fence, Seq: 1, Data: fmt.Sprint("done by ", fence), TTL: time.Hour,
		}, within()
	})
}

func nothing() error { return nil }

// A holder that another has overtaken commits nothing. The other has come before
// the transaction began.
func TestLateCommitsAreRefused(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		r := d.recorder(t)
		for i := range rounds {
			name := fmt.Sprint(i)
			err := attempt(t.Context(), d, r, name, 1, func() error {
				return attempt(t.Context(), d, r, name, 2, nothing, nothing)
			}, nothing)
			require.ErrorIs(t, err, renewer.ErrLost)
			require.Equal(t, []int64{2}, d.affectedBy(t, name))
			seen, err := r.Read(t.Context(), name)
			require.NoError(t, err)
			require.Equal(t, "done by 2", seen.Data)
		}
	})
}

// The same when the earlier holder hangs in the middle of its transaction. In every second round
// the later one has only begun by then, and commits afterwards.
func TestCommitsOfPausedTransactionsAreRefused(t *testing.T) {
	t.Parallel()
	d := onPostgres(t)
	r := d.recorder(t)
	for i := range rounds {
		name, later := fmt.Sprint(i), func() error { return nil }
		err := attempt(t.Context(), d, r, name, 1, nothing, func() error {
			if i%2 == 0 {
				return attempt(t.Context(), d, r, name, 2, nothing, nothing)
			}
			begun, end, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				over <- attempt(t.Context(), d, r, name, 2, nothing,
					func() error { close(begun); <-end; return nil })
			}()
			later = func() error { close(end); return <-over }
			<-begun
			return nil
		})
		require.ErrorIs(t, err, renewer.ErrLost)
		require.NoError(t, later())
		require.Equal(t, []int64{2}, d.affectedBy(t, name))
	}
}

// A function on SQLite that reads first and then writes does not fail since another connection has
// written meanwhile: that one waits.
func TestSQLiteSnapshotsDoNotAge(t *testing.T) {
	t.Parallel()
	d := onSQLite(t)
	other, err := sql.Open(d.driver, strings.Replace(d.dsn, "busy_timeout(10000)",
		"busy_timeout(1)", 1))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, other.Close()) })
	require.ErrorIs(t, d.recorder(t).Transact(t.Context(),
		func(ctx context.Context) (store.Record, error) {
			var n int
			require.NoError(t, sqlrecord.Tx(ctx).QueryRowContext(ctx,
				"SELECT count(*) FROM "+d.effects).Scan(&n))
			_, err := other.ExecContext(ctx, "INSERT INTO "+d.effects+" VALUES ('other', 1)")
			require.ErrorContains(t, err, "locked")
			return store.Record{Name: "a", Fence: 1, Seq: 1, TTL: time.Hour},
				d.affect(ctx, "a", 1)
		}), store.ErrNoRecord) // it had not prepared
}

// A holder that hangs between the record and the end of its COMMIT has come first: the next one
// waits for it, and finds the work done.
func TestTheNextAttemptWaitsForACommit(t *testing.T) {
	t.Parallel()
	d := onPostgres(t)
	r := d.recorder(t)
	hold := d.hangCommits(t)
	committed := make(chan error, 1)
	go func() { committed <- attempt(t.Context(), d, r, "a", 1, nothing, nothing) }()
	hold.await(t, 1)
	seen := make(chan store.Seen, 1)
	go func() {
		next, err := r.Prepare(t.Context(), store.Term{Name: "a", Fence: 2, TTL: time.Hour})
		assert.NoError(t, err)
		seen <- next
	}()
	hold.await(t, 2) // the second waits for the first's row
	hold.release(t)
	require.NoError(t, <-committed)
	require.Equal(t, "done by 1", (<-seen).Data)
}

// A lock store that has lost its data, and its clock went back, gives tokens below those on record.
// A caller waits until they have risen, and if that takes too long it is told why it waited.
func TestTokensBelowTheRecords(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		r := d.recorder(t)
		const high = 1 << 52
		_, err := r.Prepare(t.Context(), store.Term{Name: "a", Fence: high, TTL: time.Hour})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err = once.Do(ctx, memoryKeeper(t), "a", func(context.Context) (int, error) {
			panic("it runs")
		}, once.RecordIn(r))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, renewer.ErrLost)
		require.Equal(t, 1, strings.Count(err.Error(),
			fmt.Sprint("the row's token is ", high, ", above this lock's")), err)
	})
}
