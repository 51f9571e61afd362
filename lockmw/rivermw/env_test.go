package rivermw_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/internal/testutil/pgtest"
	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/lockmw/rivermw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) {
	suite.AtOnce(6)
	code := m.Run()
	if server, err := migrated(); err == nil {
		_ = server.Close()
	}
	if err := goleak.Find(redistest.Lingering()...); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

const (
	soon = 20 * time.Second // bounds what happens in a second or two
	tick = 25 * time.Millisecond
	// goesOn is how soon after a release the jobs in line have run: by
	// themselves they come after the TTL of their keepers, 15 s.
	goesOn = 9 * time.Second
)

// invoice is the arguments of the jobs.
type invoice struct {
	Tenant string
	N      int
}

func (invoice) Kind() string { return "invoice" }

func byTenant(i invoice) string { return lockmw.Key("invoice", i.Tenant) }

// nameOf is that of a tenant's lock.
func nameOf(tenant string) string { return "invoice:" + tenant }

// migrated is one server for all tests that don't harm it. Its database
// template1 has River's tables, and so have those that are made there.
var migrated = sync.OnceValues(func() (*pgtest.Server, error) {
	server, err := pgtest.Open("max_connections=400")
	if err != nil {
		return nil, err
	}
	if err := migrate(context.Background(), dsnOf(server, "template1"), ""); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return server, nil
})

func dsnOf(server *pgtest.Server, database string) string {
	return strings.Replace(server.DSN(), "dbname=postgres", "dbname="+database, 1)
}

func migrate(ctx context.Context, dsn, schema string) error {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: schema})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// env is a database for jobs, and a Redis for their locks.
type env struct {
	*redistest.Server

	t      testing.TB
	dsn    string
	schema string // of River's tables; "": public
	pool   *pgxpool.Pool
}

var databases atomic.Int64

func newEnv(t testing.TB) *env {
	t.Helper()
	return newDatabase(t, "template1", "").onRedis()
}

// onRedis gives it a Redis.
func (e *env) onRedis() *env {
	e.t.Helper()
	e.Server = redistest.Start(e.t)
	return e
}

// newDatabase is an env without a Redis, which the suite of adapters brings
// itself.
func newDatabase(t testing.TB, template, schema string) *env {
	t.Helper()
	server, err := migrated()
	if errors.Is(err, pgtest.ErrMissing) && os.Getenv(pgtest.RequireEnv) != "1" {
		t.Skip(err)
	}
	require.NoError(t, err)
	name := fmt.Sprint("jobs_", databases.Add(1))
	conn, err := pgx.Connect(t.Context(), server.DSN())
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE DATABASE "+name+" TEMPLATE "+template)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	e := &env{t: t, dsn: dsnOf(server, name), schema: schema}
	e.pool = e.newPool()
	return e
}

func (e *env) newPool() *pgxpool.Pool {
	pool, err := pgxpool.New(e.t.Context(), e.dsn)
	require.NoError(e.t, err)
	e.t.Cleanup(pool.Close)
	return pool
}

// keeper is that of one node, on a connection of its own.
func (e *env) keeper(edit ...func(*renewer.Config)) *renewer.Keeper {
	cfg := renewer.Config{TTL: renewer.DefaultTTL}
	for _, f := range edit {
		f(&cfg)
	}
	at := redisstore.Deployment{Option: e.ClientOption(), TTL: cfg.TTL}
	var store *redisstore.Store
	require.Eventually(e.t, func() bool { // a busy machine may not connect it in time
		var err error
		store, err = redisstore.Open(e.t.Context(), at)
		return err == nil
	}, soon, tick)
	e.t.Cleanup(store.Close)
	return newKeeper(e.t, store, cfg)
}

func newKeeper(t testing.TB, store renewer.Store, cfg renewer.Config) *renewer.Keeper {
	k, err := renewer.New(store, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), soon)
		defer cancel()
		_ = k.Shutdown(ctx)
	})
	return k
}

// quick is a client's configuration that fetches at once, is quiet, and retries
// in an hour what has failed.
func quick(workers int) *river.Config {
	return &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		FetchCooldown: time.Millisecond, FetchPollInterval: 50 * time.Millisecond,
		RetryPolicy: inAnHour{}, Logger: slog.New(slog.DiscardHandler),
	}
}

type inAnHour struct{}

func (inAnHour) NextRetry(*rivertype.JobRow) time.Time { return time.Now().Add(time.Hour) }

// client runs w's jobs until the test ends. It must be called after keeper.
func (e *env) client(w river.Worker[invoice], cfg *river.Config) *river.Client[pgx.Tx] {
	e.t.Helper()
	cfg.Workers, cfg.Schema = river.NewWorkers(), e.schema
	river.AddWorker(cfg.Workers, w)
	client, err := river.NewClient(riverpgxv5.New(e.newPool()), cfg)
	require.NoError(e.t, err)
	require.NoError(e.t, client.Start(context.WithoutCancel(e.t.Context())))
	e.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.t.Context()), soon)
		defer cancel()
		assert.NoError(e.t, client.StopAndCancel(ctx))
	})
	return client
}

// inserter is a client that runs no jobs.
func (e *env) inserter() *river.Client[pgx.Tx] {
	client, err := river.NewClient(riverpgxv5.New(e.pool), &river.Config{
		Logger: slog.New(slog.DiscardHandler), Schema: e.schema,
	})
	require.NoError(e.t, err)
	return client
}

// insert inserts a job of a tenant's, and returns its ID.
func (e *env) insert(tenant string, opts ...river.InsertOpts) int64 {
	e.t.Helper()
	var opt river.InsertOpts
	if len(opts) > 0 {
		opt = opts[0]
	}
	result, err := e.inserter().Insert(e.t.Context(), invoice{Tenant: tenant}, &opt)
	require.NoError(e.t, err)
	return result.Job.ID
}

// await waits until ok is true for a job.
func (e *env) await(id int64, ok func(*rivertype.JobRow) bool) (job *rivertype.JobRow) {
	e.t.Helper()
	client := e.inserter()
	found := assert.Eventually(e.t, func() bool {
		got, err := client.JobGet(context.WithoutCancel(e.t.Context()), id)
		job = got
		return err == nil && ok(got)
	}, soon, tick)
	require.True(e.t, found, "job: %+v", job)
	return job
}

func (e *env) awaitState(id int64, state rivertype.JobState) *rivertype.JobRow {
	e.t.Helper()
	return e.await(id, func(j *rivertype.JobRow) bool { return j.State == state })
}

// parked inserts a job of a tenant's, and waits until it is snoozed.
func (e *env) parked(tenant string, opts ...river.InsertOpts) int64 {
	e.t.Helper()
	id := e.insert(tenant, opts...)
	e.awaitSnoozed(id)
	return id
}

func (e *env) awaitSnoozed(id int64) *rivertype.JobRow {
	e.t.Helper()
	return e.await(id, func(j *rivertype.JobRow) bool {
		return j.State != rivertype.JobStateRunning && strings.Contains(string(j.Metadata), "snoozes")
	})
}

// states counts jobs by state, and sums up their attempts.
func (e *env) states() (n map[string]int, attempts int) {
	n = make(map[string]int)
	table := pgx.Identifier{cmp.Or(e.schema, "public"), "river_job"}.Sanitize()
	rows, err := e.pool.Query(e.t.Context(), "SELECT state::text, attempt FROM "+table)
	require.NoError(e.t, err)
	var state string
	var attempt int
	_, err = pgx.ForEachRow(rows, []any{&state, &attempt}, func() error {
		n[state]++
		attempts += attempt
		return nil
	})
	require.NoError(e.t, err)
	return n, attempts
}

// awaitDone waits until n jobs are completed at their first attempt, and there
// are no others.
func (e *env) awaitDone(n int) {
	e.t.Helper()
	require.Eventually(e.t, func() bool {
		states, attempts := e.states()
		return states["completed"] == n && len(states) == 1 && attempts == n
	}, soon, tick)
}

// keysOf lists the keys of a tenant's lock and of what waits for it.
func (e *env) keysOf(tenant string) []string {
	keys, err := e.Do("KEYS", "lockbeat:{"+nameOf(tenant)+"}*").AsStrSlice()
	require.NoError(e.t, err)
	return keys
}

// hold takes a tenant's lock, until the function that it returns is called.
func hold(t testing.TB, k *renewer.Keeper, tenant string) (release func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	lease, err := k.Acquire(ctx, renewer.Request{Name: nameOf(tenant), Operation: "web"})
	require.NoError(t, err)
	return func() { require.NoError(t, lease.Release(t.Context())) }
}

// work is a worker of a function.
func work(f func(context.Context, *river.Job[invoice]) error) river.Worker[invoice] {
	return river.WorkFunc(f)
}

// record is what workers have run.
type record struct {
	mu       sync.Mutex
	ids      []int64 // of jobs, in order of their runs
	running  map[string]bool
	overlaps int // runs that began while another of the same tenant ran
}

// worker has jobs take d, and records them.
func (r *record) worker(
	k *renewer.Keeper, d time.Duration, opts ...jobs.Option,
) river.Worker[invoice] {
	return rivermw.Wrap(k, byTenant, work(r.run(d)), opts...)
}

func (r *record) run(d time.Duration) func(context.Context, *river.Job[invoice]) error {
	return func(_ context.Context, job *river.Job[invoice]) error {
		r.begin(job)
		defer r.end(job)
		<-time.After(d)
		return nil
	}
}

func (r *record) begin(job *river.Job[invoice]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = append(r.ids, job.ID)
	if r.running == nil {
		r.running = make(map[string]bool)
	}
	if r.running[job.Args.Tenant] {
		r.overlaps++
	}
	r.running[job.Args.Tenant] = true
}

func (r *record) end(job *river.Job[invoice]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[job.Args.Tenant] = false
}

// await waits until n have run, and returns them. It takes less than within.
func (r *record) await(t testing.TB, n int, within time.Duration) []int64 {
	t.Helper()
	ran := func() []int64 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return append([]int64(nil), r.ids...)
	}
	require.Eventually(t, func() bool { return len(ran()) >= n }, within, time.Millisecond)
	return ran()
}

// faults records what a keeper's observer is told of trouble in the background.
type faults struct {
	renewer.NopObserver

	mu  sync.Mutex
	all []renewer.Fault
}

func (f *faults) Fault(e renewer.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, e)
}

func (f *faults) told() []renewer.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]renewer.Fault(nil), f.all...)
}

func (f *faults) observe(cfg *renewer.Config) { cfg.Observer = f }
