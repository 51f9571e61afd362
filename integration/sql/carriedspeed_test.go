package sql_test

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/lockmw/fencedb"
)

// Transactions of one holder pass each other, at each level: here all eight are open at
// once, so that one that waited for another would wait for ever. None is in conflict by
// its fence.
func TestTransactionsOfOneHolderPassEachOther(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sqlc on pgx", "pgx/stdlib", "lib/pq", "MariaDB"} {
		for _, level := range []sql.IsolationLevel{
			sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable,
		} {
			t.Run(name+" "+level.String(), func(t *testing.T) {
				t.Parallel()
				w := ways()[name]
				d := w.openAccount(t, name)
				if name == "sqlc on pgx" {
					d = d.with(" pool_max_conns=8")
				}
				r := w.repo(t, d, true)
				for token := range int64(5) {
					ctx, leave := newProcess(t).under(t, token+1, "a")
					atOnce(t, func(meet func()) error { return opens(ctx, r, level, meet) })
					leave()
				}
			})
		}
	}
}

// atOnce runs eight of f, which all meet.
func atOnce(t *testing.T, f func(meet func()) error) {
	t.Helper()
	var open, over sync.WaitGroup
	open.Add(8)
	errs := make(chan error, 8)
	for range 8 {
		over.Go(func() {
			errs <- f(func() {
				open.Done()
				open.Wait()
			})
		})
	}
	over.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

// opens begins a transaction by a repository's database, and commits it.
func opens(
	ctx context.Context, r repository, level sql.IsolationLevel, during func(),
) error {
	o := sql.TxOptions{Isolation: level}
	if r, ok := r.(sqlcRepository); ok {
		return pgx.BeginTxFunc(ctx, r.db, pgxOptions(o), func(pgx.Tx) error {
			during()
			return nil
		})
	}
	tx, err := r.(sqlRepository).db.BeginTx(ctx, &o)
	if err != nil {
		return err
	}
	during()
	return tx.Commit()
}

// A former holder's goroutines go on, with transactions that overlap. Their successor is
// not kept out by them: the claim stops those that have not begun.
func TestATakeOverIsNotStarved(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sqlc on pgx", "lib/pq", "MariaDB"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := ways()[name]
			d := w.openAccount(t, name)
			r, other := w.repo(t, d, true), w.repo(t, d, true)
			former, successor := holder(t, 1, "a"), holder(t, 2, "a")
			var over, stop atomic.Bool // over: the successor has committed
			var all sync.WaitGroup
			var commits, late, refused atomic.Int64
			for range 8 {
				all.Go(func() {
					for !stop.Load() {
						begunLate := over.Load()
						switch err := opens(former, r, sql.LevelDefault, func() {
							time.Sleep(20 * time.Millisecond) //nolint:forbidigo // the work
						}); {
						case err == nil && begunLate:
							late.Add(1)
						case err == nil:
							commits.Add(1)
						case begunLate:
							refused.Add(1)
						}
					}
				})
			}
			require.Eventually(t, func() bool { return commits.Load() > 8 }, 30*time.Second,
				time.Millisecond)
			begun := time.Now()
			require.NoError(t, other.AddAlone(successor))
			took := time.Since(begun)
			over.Store(true)
			require.Eventually(t, func() bool { return refused.Load() > 8 }, 30*time.Second,
				time.Millisecond)
			stop.Store(true)
			all.Wait()
			require.Zero(t, late.Load(), "late commits")
			require.Less(t, took, 5*time.Second) // starved, it would not come to its end
			t.Logf("the successor has committed after %v", took)
		})
	}
}

// A fence costs no round trip more by pgx, one by other drivers; the first of a lease two
// more.
func TestRoundTripsOfAFence(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]int64{
		"sqlc on pgx": 0, "pgx/stdlib": 0, "lib/pq": 1, "MariaDB": 1,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := ways()[name]
			d := w.openAccount(t, name)
			counted, turns := d.counted(t)
			bare, carried := w.repo(t, counted, false), w.repo(t, counted, true)
			once := func(ctx context.Context, r repository) int64 {
				before := turns.Load()
				require.NoError(t, r.Add(ctx, sql.TxOptions{}, noop, noop))
				return turns.Load() - before
			}
			// A driver may ping now and then.
			trips := func(ctx context.Context, r repository) int64 {
				return min(once(ctx, r), once(ctx, r), once(ctx, r))
			}
			for _, r := range []repository{bare, carried} { // connects, prepares
				trips(t.Context(), r)
			}
			trips(holder(t, 1, "other"), carried)
			want := trips(t.Context(), bare)
			require.Equal(t, want, trips(t.Context(), carried), "under no lock")
			under := holder(t, 1, "a")
			first := once(under, carried)
			require.LessOrEqual(t, first, want+more+2, "the first of a lease")
			require.Equal(t, want+more, trips(under, carried))
			t.Logf("bare %d, fenced %d, the first of a lease %d", want, want+more, first)
		})
	}
}

// A statement whose arguments a driver leaves to be prepared begins one transaction, and not
// one before it has said so each time.
func TestRoundTripsOfArguments(t *testing.T) {
	t.Parallel()
	d := ways()["MariaDB"].openAccount(t, "MariaDB")
	counted, turns := d.counted(t)
	trips := func(ctx context.Context, db *sql.DB) int64 {
		before := turns.Load()
		_, err := db.ExecContext(ctx, "INSERT INTO entries (id) VALUES (?)", "x")
		require.NoError(t, err)
		return turns.Load() - before
	}
	carried := counted.carrying(t)
	under := holder(t, 1, "a")
	trips(under, carried)
	prepared := trips(t.Context(), carried) // and executed
	require.Equal(t, prepared+3, min(trips(under, carried), trips(under, carried)),
		"begun, checked and committed")
}

var (
	socketOfPostgres = regexp.MustCompile(`host=(\S+)`)
	socketOfMariaDB  = regexp.MustCompile(`unix\(([^)]+)\)`)
)

// counted is the same database by a socket that counts how often a client speaks after
// the server.
func (d *fenced) counted(t *testing.T) (*fenced, *atomic.Int64) {
	t.Helper()
	other := *d
	dir := t.TempDir()
	var to, listen string
	if d.dialect() == fencedb.MySQL {
		to, listen = socketOfMariaDB.FindStringSubmatch(d.dsn)[1], filepath.Join(dir, "s")
		other.dsn = socketOfMariaDB.ReplaceAllString(d.dsn, "unix("+listen+")")
	} else {
		const name = ".s.PGSQL.5432"
		to = filepath.Join(socketOfPostgres.FindStringSubmatch(d.dsn)[1], name)
		listen = filepath.Join(dir, name)
		other.dsn = socketOfPostgres.ReplaceAllString(d.dsn, "host="+dir)
	}
	turns := new(atomic.Int64)
	l, err := net.Listen("unix", listen)
	require.NoError(t, err)
	var all sync.WaitGroup
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		all.Wait()
	})
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", to)
			if err != nil {
				_ = client.Close()
				return
			}
			var spoke atomic.Bool // the server was the last to speak
			pump := func(from, to net.Conn, read func()) {
				buffer := make([]byte, 1<<16)
				for {
					n, err := from.Read(buffer)
					if n > 0 {
						read()
						_, _ = to.Write(buffer[:n])
					}
					if err != nil {
						_ = to.Close()
						return
					}
				}
			}
			all.Go(func() {
				pump(client, server, func() {
					if spoke.Swap(false) {
						turns.Add(1)
					}
				})
			})
			all.Go(func() { pump(server, client, func() { spoke.Store(true) }) })
		}
	})
	return &other, turns
}

// What a fence costs, by medians of turns. It is printed, as what it is on this machine.
func TestWhatAFenceCosts(t *testing.T) { //nolint:paralleltest // it measures
	suite.OnlyLong(t)
	const rounds = 500
	for _, name := range []string{"sqlc on pgx", "pgx/stdlib", "lib/pq", "MariaDB", "SQLite"} {
		w := ways()[name]
		d := w.openAccount(t, name)
		bare, carried := w.repo(t, d, false), w.repo(t, d, true)
		under, p := holder(t, 1, "a"), newProcess(t)
		took := make([][]time.Duration, 4)
		for i := range int64(rounds) {
			first, leave := p.under(t, i+1, "b")
			all := []struct {
				ctx context.Context
				repository
			}{{under, bare}, {under, carried}, {t.Context(), carried}, {first, carried}}
			for _, j := range rand.Perm(len(all)) {
				begun := time.Now()
				require.NoError(t, updates(all[j].ctx, all[j].repository))
				took[j] = append(took[j], time.Since(begun))
			}
			leave()
		}
		base := median(took[0]).Seconds()
		t.Logf("%-12s %v bare, x%.2f fenced, x%.2f the first of a lease, x%.2f under no lock", name,
			median(took[0]), median(took[1]).Seconds()/base, median(took[3]).Seconds()/base,
			median(took[2]).Seconds()/base)
	}
	for _, level := range []sql.IsolationLevel{
		sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable,
	} {
		w := ways()["sqlc on pgx"]
		d := w.openAccount(t, "sqlc on pgx")
		bare, carried := w.repo(t, d.with(" pool_max_conns=12"), false),
			w.repo(t, d.with(" pool_max_conns=12"), true)
		under := holder(t, 1, "a")
		took := make([][]time.Duration, 2)
		for range 60 {
			for j, r := range []repository{bare, carried} {
				begun := time.Now()
				atOnce(t, func(meet func()) error {
					return opens(under, r, level, func() {
						meet()
						time.Sleep(5 * time.Millisecond) //nolint:forbidigo // the work
					})
				})
				took[j] = append(took[j], time.Since(begun))
			}
		}
		t.Logf("eight at once, %v: %v bare, x%.2f fenced", level, median(took[0]),
			median(took[1]).Seconds()/median(took[0]).Seconds())
	}
}

// updates is a transaction of one UPDATE.
func updates(ctx context.Context, r repository) error {
	const update = "UPDATE accounts SET n = n + 1 WHERE id = $1"
	if r, ok := r.(sqlcRepository); ok {
		return pgx.BeginTxFunc(ctx, r.db, pgx.TxOptions{}, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, update, "7")
			return err
		})
	}
	own := r.(sqlRepository)
	tx, err := own.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, own.text(update), "7"); err != nil {
		return err
	}
	return tx.Commit()
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
