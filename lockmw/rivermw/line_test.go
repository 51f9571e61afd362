package rivermw_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/lockmw/rivermw"
	"github.com/lockbeat/lockbeat/renewer"
)

// Jobs that wait for busy locks, as they are told to, leave workers to a job
// whose lock is free.
func TestFewJobsWithoutALineWaitInWorkers(t *testing.T) {
	t.Parallel()
	const n = 6
	e := newEnv(t)
	var r record
	holder := e.keeper()
	var releases []func()
	for i := range n {
		releases = append(releases, hold(t, holder, fmt.Sprint("t", i)))
	}
	cfg := quick(n)
	cfg.JobTimeout = -1
	e.client(r.worker(e.keeper(), 0, lockmw.Wait(time.Hour)), cfg)
	for i := range n {
		e.insert(fmt.Sprint("t", i))
	}
	require.Eventually(t, func() bool {
		states, _ := e.states()
		return states["running"] == 4 && states["available"] == n-4
	}, soon, tick, "four wait, the others went back")
	e.awaitState(e.insert("free"), rivertype.JobStateCompleted)
	for _, release := range releases {
		release()
	}
	e.awaitDone(n + 1)
}

// hearsNothing is an ErrorHandler that must not be called.
type hearsNothing struct {
	river.ErrorHandler

	t *testing.T
}

func (h hearsNothing) HandleError(
	_ context.Context, _ *rivertype.JobRow, err error,
) *river.ErrorHandlerResult {
	h.t.Errorf("it hears of %v", err)
	return nil
}

// River's own role suffices for jobs in line, and its tables may be in a schema
// of their own, reached by database/sql. A notification brings them, also a
// unique one, and the operator hears of no error.
func TestJobsInLineOfADatabaseThatIsNotAsByDefault(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) (*env, jobs.Option){
		"few rights": withFewRights, "a schema": inASchema,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, line := open(t)
			var r record
			var told faults
			release := hold(t, e.keeper(), "t1")
			cfg := quick(4)
			cfg.FetchPollInterval = time.Hour // only a notification brings them
			cfg.ErrorHandler = hearsNothing{t: t}
			e.client(r.worker(e.keeper(told.observe), 0, line, lockmw.Refuse()), cfg)
			unique := river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}}
			id := e.parked("t1", unique)
			again, err := e.inserter().Insert(t.Context(), invoice{Tenant: "t1"}, &unique)
			require.NoError(t, err)
			assert.True(t, again.UniqueSkippedAsDuplicate, "it stands in line")
			job := e.awaitSnoozed(id)
			assert.Empty(t, job.Errors)
			assert.Zero(t, job.Attempt)
			assert.Greater(t, time.Until(job.ScheduledAt), 10*time.Second)
			release()
			r.await(t, 1, goesOn)
			e.awaitDone(1)
			assert.Empty(t, told.told())
		})
	}
}

// withFewRights is an env of River's own role.
func withFewRights(t *testing.T) (*env, jobs.Option) {
	t.Helper()
	e := newEnv(t)
	_, role, _ := strings.Cut(e.dsn, "dbname=")
	role, _, _ = strings.Cut(role, " ")
	_, err := e.pool.Exec(t.Context(), `CREATE ROLE `+role+` LOGIN; `+
		`GRANT USAGE ON SCHEMA public TO `+role+`; `+
		`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO `+role+`; `+
		`GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO `+role)
	require.NoError(t, err)
	e.dsn = strings.Replace(e.dsn, "user=lockbeat", "user="+role, 1)
	return e, rivermw.InLine(e.newPool())
}

// sqlPool is a pool of database/sql.
type sqlPool struct{ *sql.DB }

func (p sqlPool) QueryRow(ctx context.Context, query string, args ...any) *sql.Row {
	return p.QueryRowContext(ctx, query, args...)
}

// inASchema is an env whose tables have a schema of their own.
func inASchema(t *testing.T) (*env, jobs.Option) {
	t.Helper()
	const schema = "Billing"
	e := newDatabase(t, "template0", schema).onRedis()
	_, err := e.pool.Exec(t.Context(), `CREATE SCHEMA "Billing"`)
	require.NoError(t, err)
	require.NoError(t, migrate(t.Context(), e.dsn, schema))
	pool := sqlPool{stdlib.OpenDBFromPool(e.pool)}
	t.Cleanup(func() { assert.NoError(t, pool.Close()) })
	return e, rivermw.InLine(pool, schema)
}

// A job that is called runs before those that came to the queue later, and were
// not fetched yet.
func TestCalledJobComesBeforeLaterOnes(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var r record
	release := hold(t, e.keeper(), "t1")
	client := e.client(r.worker(e.keeper(), 0, rivermw.InLine(e.pool), lockmw.Refuse()), quick(1))
	called := e.parked("t1")
	paused, stop := client.Subscribe(river.EventKindQueuePaused)
	defer stop()
	require.NoError(t, client.QueuePause(t.Context(), river.QueueDefault, nil))
	<-paused
	for range 3 {
		e.insert("t2")
	}
	release()
	e.await(called, func(j *rivertype.JobRow) bool {
		return j.State == rivertype.JobStateAvailable && time.Now().After(j.ScheduledAt)
	})
	require.NoError(t, client.QueueResume(t.Context(), river.QueueDefault, nil))
	assert.Equal(t, called, r.await(t, 4, soon)[0])
}

// Jobs of a low priority are not fetched as long as there are others: one of a
// high one does not wait behind them for its lock, which is free.
func TestAnUrgentJobPassesThoseThatAreNotFetched(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	release, ran, inserter := hold(t, e.keeper(), "t1"), make(chan int64, 10), e.inserter()
	worker := work(func(ctx context.Context, job *river.Job[invoice]) error {
		if job.Args.Tenant == "t1" {
			ran <- job.ID
		} else if t.Context().Err() == nil { // so that there is always another
			_, _ = inserter.Insert(ctx, job.Args, nil)
		}
		return nil
	})
	// None comes by itself.
	k := e.keeper(func(cfg *renewer.Config) { cfg.TTL = time.Minute })
	e.client(rivermw.Wrap(k, byTenant, worker, rivermw.InLine(e.pool), lockmw.Refuse()), quick(1))
	for range 9 {
		e.parked("t1", river.InsertOpts{Priority: 4})
	}
	urgent := e.parked("t1")
	e.insert("t2")
	release()
	select {
	case first := <-ran:
		assert.Equal(t, urgent, first)
	case <-time.After(soon):
		t.Fatal("it waits for those that are not fetched")
	}
}

// place gives a job the last place in t1's line.
func (e *env) place(queue string, id any) {
	e.t.Helper()
	line := ""
	require.Eventually(e.t, func() bool {
		for _, key := range e.keysOf("t1") {
			if strings.Contains(key, ":tasks:") {
				line = key
			}
		}
		return line != ""
	}, soon, tick)
	require.NoError(e.t, e.Do("ZADD", line, strconv.FormatInt(time.Now().UnixMicro(), 10),
		fmt.Sprint(queue, "\n", id)).Error())
}

// The first in line were deleted, or cancelled, or their client has died, or
// they are no jobs: they leave the line. Others that another program has
// written there, and that no lock refused, are left alone.
func TestJobsInLineThatAreGone(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var r record
	var told faults
	release := hold(t, e.keeper(), "t1")
	e.client(r.worker(e.keeper(told.observe), 0, rivermw.InLine(e.pool), lockmw.Refuse()), quick(4))
	e.parked("t1") // the process waits in its place
	deleted, cancelled, dead := e.parked("t1"), e.parked("t1"), e.parked("t1")
	later := e.insert("t1", river.InsertOpts{ScheduledAt: time.Now().Add(time.Hour)})
	e.place("1 default", later)
	e.place("1 default", "none")
	e.place("1 default", int64(1)<<40)
	e.place("1 no\x00queue", later)
	last := e.parked("t1")
	client := e.inserter()
	_, err := client.JobDelete(t.Context(), deleted)
	require.NoError(t, err)
	job, err := client.JobCancel(t.Context(), cancelled)
	require.NoError(t, err)
	assert.Equal(t, rivertype.JobStateCancelled, job.State, "at once")
	_, err = e.pool.Exec(t.Context(), "UPDATE river_job SET state = 'running', "+
		"attempted_at = now() - interval '1 minute' WHERE id = $1", dead)
	require.NoError(t, err)
	release()
	r.await(t, 2, goesOn)
	e.awaitState(last, rivertype.JobStateCompleted)
	require.Eventually(t, func() bool { return len(e.keysOf("t1")) == 0 }, soon, tick)
	assert.Equal(t, rivertype.JobStateScheduled, e.await(later, func(*rivertype.JobRow) bool {
		return true
	}).State)
	assert.Empty(t, told.told())
}

// A job that has run, and was snoozed by its own worker, is not called: it
// waits for its time. Its mark is gone.
func TestJobSnoozedByItsWorkerIsNotCalled(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	release := hold(t, e.keeper(), "t1")
	e.client(rivermw.Wrap(e.keeper(), byTenant,
		work(func(context.Context, *river.Job[invoice]) error { return river.JobSnooze(time.Hour) }),
		rivermw.InLine(e.pool), lockmw.Refuse()), quick(4))
	e.parked("t1") // the process waits in its place
	id := e.parked("t1")
	marked := func(j *rivertype.JobRow) bool {
		return strings.Contains(string(j.Metadata), "[lock_hash=")
	}
	e.await(id, marked)
	release()
	job := e.await(id, func(j *rivertype.JobRow) bool {
		return j.State == rivertype.JobStateScheduled && !marked(j)
	})
	assert.Greater(t, time.Until(job.ScheduledAt), 30*time.Minute)
}

// The pool is on another database than the client, or on one without River.
// Jobs run, but not in line, and the observer is told once.
func TestInLineOfADatabaseThatIsNotTheClients(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dsn  func(e *env) string
		says string
	}{
		"another": {
			func(e *env) string { return newDatabase(e.t, "template1", "").dsn },
			"give it a pool on the client's own database",
		},
		"no tables": {func(*env) string {
			server, _ := migrated()
			return server.DSN()
		}, "and its Config.Schema: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			var r record
			var told faults
			other := *e
			other.dsn = c.dsn(e)
			release := hold(t, e.keeper(), "t1")
			e.client(r.worker(e.keeper(told.observe), 0, rivermw.InLine(other.newPool()),
				jobs.RetryIn(50*time.Millisecond)), quick(4))
			e.parked("t1")
			require.Len(t, told.told(), 1)
			assert.ErrorContains(t, told.told()[0].Err, c.says)
			assert.Equal(t, name == "another", errors.Is(told.told()[0].Err, renewer.ErrConfig))
			release()
			e.awaitDone(1)
		})
	}
}
