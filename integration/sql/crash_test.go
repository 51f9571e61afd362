package sql_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/lockmw/once/sqlrecord"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/pgtest"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// workerEnv has the test binary be a process that dies in the middle of its work: what is between
// the separators are the Redis server, the driver, the DSN and the tables.
const workerEnv = "LOCKBEAT_SQL_WORKER"

const separator = "\n"

// workUntilKilled has the effect, says so, and waits to be killed.
func workUntilKilled(spec string) {
	part := strings.Split(spec, separator)
	d := &database{
		dialect: sqlrecord.SQLite, driver: part[1], dsn: part[2], records: part[3],
		effects: part[4],
	}
	if d.driver == "pgx" {
		d.dialect = sqlrecord.PostgreSQL
	}
	fail := func(err error) {
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
	}
	var err error
	d.DB, err = sql.Open(d.driver, d.dsn)
	fail(err)
	recorder, err := sqlrecord.New(d.DB, d.dialect, sqlrecord.Table(d.records))
	fail(err)
	option, err := redisstore.ClientOption(
		rueidis.ClientOption{InitAddress: []string{part[0]}}, clientTTL)
	fail(err)
	client, err := rueidis.NewClient(option)
	fail(err)
	store, err := redisstore.New(client)
	fail(err)
	k, err := renewer.New(store, renewer.Config{TTL: lockTTL})
	fail(err)
	_, err = once.Do(context.Background(), k, "a", func(ctx context.Context) (string, error) {
		err := d.affect(ctx, "a", 1)
		fmt.Println("affected", err)
		if err == nil {
			select {}
		}
		return "the first", err
	}, once.RecordIn(recorder))
	fail(errors.Join(errors.New("not killed"), err))
}

// A process that is killed between the effect and the record leaves neither. Another one takes
// over, and its effect is the only one.
func TestKilledBetweenEffectAndCommit(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		server := redistest.Start(t)
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), workerEnv+"="+strings.Join([]string{
			server.Addr(), d.driver, d.dsn, d.records, d.effects,
		}, separator))
		said, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		var word, result string
		_, err = fmt.Fscanln(said, &word, &result)
		require.NoError(t, err)
		require.Equal(t, "affected <nil>", word+" "+result)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())

		k := redisKeeper(t, server)
		got, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (string, error) {
			require.Equal(t, 2, once.Current(ctx).Number)
			require.Empty(t, d.affectedBy(t, "a"))
			return "the second", d.affect(ctx, "a", 2)
		}, once.RecordIn(d.recorder(t)))
		require.NoError(t, err)
		require.Equal(t, "the second", got)
		require.Equal(t, []int64{2}, d.affectedBy(t, "a"))
	})
}

func redisKeeper(t *testing.T, server *redistest.Server) *renewer.Keeper {
	t.Helper()
	store, err := redisstore.New(server.Client(t, func(o *rueidis.ClientOption) {
		tuned, err := redisstore.ClientOption(*o, clientTTL)
		require.NoError(t, err)
		*o = tuned
	}))
	require.NoError(t, err)
	t.Cleanup(store.Close)
	return keeper(t, store, lockTTL)
}

// A database that crashes between the effect and the record has neither when it is back, and the
// same call tries again.
func TestDatabaseCrashesBetweenEffectAndCommit(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	d := open(t, sqlrecord.PostgreSQL, "pgx", server.DSN())
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
		}, once.RecordIn(d.recorder(t)), once.RetryIn(10*time.Millisecond))
	require.NoError(t, err)
	require.Equal(t, "attempt 2", got)
	require.Equal(t, []int64{2}, d.affectedBy(t, "a"))
}

// A commit whose answer is lost is asked for: it stands, and the function is not run again.
func TestLostAnswerToCommit(t *testing.T) {
	t.Parallel()
	direct := onPostgres(t)
	hold, wire := direct.hangCommits(t), newWire(t, direct.dsn)
	d := *direct
	var err error
	d.DB, err = sql.Open("pgx", wire.dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
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
	d := *direct
	var err error
	d.DB, err = sql.Open("pgx", wire.dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
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
