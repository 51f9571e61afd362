package sql_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/pgtest"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/lockmw/once/sqlrecord"
)

// A database that crashes between the effect and the record has neither when it is back, and the
// same call tries again.
func TestDatabaseCrashesBetweenEffectAndCommit(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	d := open(t, "pgx", server.DSN())
	attempts := 0
	got, err := once.Do(t.Context(), memoryKeeper(t), "a",
		func(ctx context.Context) (string, error) {
			attempts++
			err := d.affect(ctx, "a", int64(attempts))
			if attempts == 1 {
				require.NoError(t, err)
				require.NoError(t, server.Restart())
			}
			return fmt.Sprint("attempt ", attempts), err
		}, once.RecordIn(d.recorder(t)), once.Retry(10*time.Millisecond, time.Second))
	require.NoError(t, err)
	require.Equal(t, "attempt 2", got)
	require.Equal(t, []int64{2}, d.affectedBy(t, "a"))
	require.Contains(t, server.Log(), "automatic recovery", "it was a crash")
}

// A commit whose answer is lost is asked for: it stands, and the function is not run again.
func TestLostAnswerToCommit(t *testing.T) {
	t.Parallel()
	direct := onPostgres(t)
	hold, wire := direct.hangCommits(t), newWire(t, direct.dsn)
	d := direct.by(t, wire.dsn)
	type outcome struct {
		result string
		err    error
	}
	k, r, ended := memoryKeeper(t), d.recorder(t), make(chan outcome, 1)
	go func() {
		result, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (string, error) {
			return "done", d.affect(ctx, "a", 1)
		}, once.RecordIn(r), once.NoRetry())
		ended <- outcome{result, err}
	}()
	hold.await(t, 1)
	wire.cut()
	hold.await(t, 2) // the caller asks for the row, which the COMMIT has locked
	hold.release(t)
	require.Equal(t, outcome{result: "done"}, <-ended)
	require.Equal(t, []int64{1}, d.affectedBy(t, "a"))
}

// A function that fails while the link to the server is dead is not waited for beyond Timeout: the
// server undoes the transaction when it notices.
func TestRollbackOverADeadLink(t *testing.T) {
	t.Parallel()
	direct := onPostgres(t)
	wire := newWire(t, direct.dsn)
	d := direct.by(t, wire.dsn)
	keeper, recorder := memoryKeeper(t), d.recorder(t, sqlrecord.Timeout(100*time.Millisecond))
	errWork := errors.New("the function's")
	ended := make(chan error, 1)
	go func() {
		_, err := once.Do(t.Context(), keeper, "a", func(ctx context.Context) (int, error) {
			defer wire.silent.Store(true)
			return 0, cmp.Or(d.affect(ctx, "a", 1), errWork)
		}, once.RecordIn(recorder), once.NoRetry())
		ended <- err
	}()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, errWork)
	case <-time.After(10 * time.Second):
		require.Fail(t, "it waits for the rollback")
	}
	require.Empty(t, direct.affectedBy(t, "a"))
}
