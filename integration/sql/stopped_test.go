package sql_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/fencedb"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

const (
	holderEnv  = "LOCKBEAT_STOPPED_HOLDER" // what a holder is given: Redis, kind and DSN
	stoppedTTL = 400 * time.Millisecond
	// How many locks the processes have in turn: each stop of one stops half of these
	// holders.
	lockedCarried, lockedBare = 20, 4
)

// entry is what a handler writes: a number that it has read and raised, and by whose token.
func entry(ctx context.Context, db *sql.DB, text func(string) string, name string, token int64) error {
	pause := func(n int) {
		time.Sleep(time.Duration(rand.IntN(n)) * time.Millisecond) //nolint:forbidigo // the work
	}
	pause(60)
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var n int64
	pause(3)
	err = tx.QueryRowContext(ctx, text("SELECT n FROM stopped WHERE id = $1"), name).Scan(&n)
	if err != nil {
		return err
	}
	pause(3)
	_, err = tx.ExecContext(ctx, text("UPDATE stopped SET n = $1 WHERE id = $2"), n+1, name)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, text("INSERT INTO written (id, token) VALUES ($1, $2)"), name, token)
	if err != nil {
		return err
	}
	pause(3)
	return tx.Commit()
}

// hold is a process that takes the locks, and writes under them by handlers that are
// detached from their context, as many are for what must not be cut off.
func hold(given string) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	parts := strings.SplitN(given, "|", 3)
	where, err := redisstore.FromURL("redis://" + parts[0])
	must(err)
	where.TTL = stoppedTTL
	var store *redisstore.Store
	for store == nil { // its dials have so little time that on a busy machine some fail
		store, err = redisstore.Open(context.Background(), where)
		if !errors.Is(err, renewer.ErrUnavailable) {
			must(err)
		}
	}
	keeper, err := renewer.New(store, renewer.Config{TTL: stoppedTTL})
	must(err)
	d := &fenced{kind: parts[1], dsn: parts[2]}
	t := new(testing.T)
	bare := sql.OpenDB(d.connector(t))
	carrying := sql.OpenDB(fencedb.Connector(d.connector(t), d.dialect()))
	text := sqlRepository{nil, d.dialect()}.text
	hold := func(db *sql.DB, name string) {
		for {
			_ = lockmw.Run(context.Background(), keeper, name, func(ctx context.Context) error {
				token := lockmw.Fence(ctx)
				for range 10 {
					err := entry(context.WithoutCancel(ctx), db, text, name, token)
					if errors.Is(err, renewer.ErrLost) {
						fmt.Println("refused")
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	for i := range lockedBare {
		go hold(bare, fmt.Sprint("bare", i))
	}
	for i := range lockedCarried {
		go hold(carrying, fmt.Sprint("carried", i))
	}
	fmt.Println("begun")
	select {}
}

// Holders are stopped by SIGSTOP at random instants, and go on when another process has
// the lock. On connections that carry fences none commits late, and no update is lost; on
// others, side by side, they do.
func TestStoppedHoldersCommitNothingLate(t *testing.T) {
	t.Parallel()
	stops := suite.Size(100, 10_000) / (lockedCarried / 2)
	redis := redistest.Start(t)
	for name, more := range map[string]string{
		"pgx/stdlib": " idle_in_transaction_session_timeout=150", "MariaDB": "",
		"SQLite": "&_txlock=immediate",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := ways()[name].openAccount(t, name)
			serial := map[string]string{
				"pgx/stdlib": "BIGSERIAL PRIMARY KEY", "MariaDB": "BIGINT PRIMARY KEY AUTO_INCREMENT",
				"SQLite": "INTEGER PRIMARY KEY AUTOINCREMENT",
			}[name]
			d.run(t, "CREATE TABLE stopped (id VARCHAR(20) PRIMARY KEY, n BIGINT)",
				"CREATE TABLE written (s "+serial+", id VARCHAR(20), token BIGINT)",
				"CREATE INDEX written_id ON written (id, s)")
			for i := range lockedCarried {
				d.run(t, fmt.Sprintf("INSERT INTO stopped VALUES ('carried%d', 0)", i))
			}
			for i := range lockedBare {
				d.run(t, fmt.Sprintf("INSERT INTO stopped VALUES ('bare%d', 0)", i))
			}
			// On a busy machine the others take their time to write late.
			bites := func() bool {
				return name == "SQLite" || d.judgeStopped(t, "bare").late > 0
			}
			stopped, refused := stopRounds(t, stops, bites, redis.Addr()+"|"+name+"|"+d.dsn+more)
			bare, carried := d.judgeStopped(t, "bare"), d.judgeStopped(t, "carried")
			t.Logf("%d holders stopped: %d commits, %d late, %d lost, %d refused; without, %d: "+
				"%d commits, %d late, %d lost",
				stopped*lockedCarried/2, carried.commits, carried.late, carried.lost, refused, stopped*lockedBare/2, bare.commits, bare.late, bare.lost)
			if name != "SQLite" { // a holder that is stopped in a transaction stops them all
				require.Positive(t, bare.late, "the test does not bite")
			}
			require.Positive(t, refused)
			require.Zero(t, carried.late)
			require.Zero(t, carried.lost)
		})
	}
}

// stopRounds runs two holders, and stops them so often, or until one was refused and it is
// enough.
func stopRounds(
	t *testing.T, stops int, enough func() bool, given string,
) (stopped int, refused int64) {
	t.Helper()
	var n atomic.Int64
	var read sync.WaitGroup
	all := make([]*exec.Cmd, 2)
	begun := make(chan struct{}, len(all))
	for i := range all {
		c := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
		c.Env = append(os.Environ(), holderEnv+"="+given)
		out, err := c.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, c.Start())
		read.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if lines.Text() == "begun" {
					begun <- struct{}{}
				} else {
					n.Add(1)
				}
			}
		})
		all[i] = c
		t.Cleanup(func() {
			_ = c.Process.Kill()
			read.Wait()
			_ = c.Wait()
		})
	}
	for range all {
		select {
		case <-begun:
		case <-time.After(time.Minute):
			require.FailNow(t, "a holder has not begun")
		}
	}
	time.Sleep(stoppedTTL) //nolint:forbidigo // they have locks
	for ; stopped < stops || stopped < 10*stops && (n.Load() == 0 || !enough()); stopped++ {
		c := all[rand.IntN(2)]
		time.Sleep(time.Duration(20+rand.IntN(60)) * time.Millisecond) //nolint:forbidigo // random
		require.NoError(t, c.Process.Signal(syscall.SIGSTOP))
		time.Sleep(stoppedTTL + 80*time.Millisecond) //nolint:forbidigo // others have its locks
		require.NoError(t, c.Process.Signal(syscall.SIGCONT))
	}
	time.Sleep(stoppedTTL) //nolint:forbidigo // they write late
	for _, c := range all {
		_ = c.Process.Kill()
	}
	read.Wait()
	return stopped, n.Load()
}

type judged struct{ commits, late, lost int64 }

// judgeStopped counts what was written under locks whose names begin so: behind a higher
// token, or over another's update.
func (d *fenced) judgeStopped(t *testing.T, prefix string) (j judged) {
	t.Helper()
	for query, to := range map[string]*int64{
		"SELECT count(*) FROM written WHERE id LIKE '%s%%'": &j.commits,
		"SELECT sum(n) FROM stopped WHERE id LIKE '%s%%'":   &j.lost,
		"SELECT count(*) FROM (SELECT token, max(token) OVER (PARTITION BY id ORDER BY s) AS highest " +
			"FROM written WHERE id LIKE '%s%%') AS w WHERE token < highest": &j.late,
	} {
		require.NoError(t, d.QueryRowContext(t.Context(), fmt.Sprintf(query, prefix)).Scan(to))
	}
	j.lost = j.commits - j.lost
	return j
}
