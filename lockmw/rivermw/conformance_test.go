package rivermw_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/lockmw/rivermw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/jobtest"
)

func TestAdapterOfJobs(t *testing.T) {
	t.Parallel()
	jobtest.Run(t, func(t *testing.T) jobtest.Framework {
		e := newDatabase(t, "template1", "")
		return &framework{env: e, client: e.inserter()}
	})
}

// framework is River, on a database of its own.
type framework struct {
	*env

	client *river.Client[pgx.Tx]
	ids    sync.Map // of jobs, by their names
}

// named is the arguments of its jobs.
type named struct{ jobtest.Job }

func (named) Kind() string { return "named" }

// Serve implements [jobtest.Framework].
func (f *framework) Serve(
	k *renewer.Keeper, n int, work func(context.Context, jobtest.Job) error, opts ...jobs.Option,
) (stop func()) {
	pool := f.newPool()
	cfg := quick(n)
	cfg.Workers = river.NewWorkers()
	river.AddWorker(cfg.Workers, rivermw.Wrap(k, func(j named) lockmw.Set { return j.Lock() },
		river.WorkFunc(func(ctx context.Context, job *river.Job[named]) error {
			return work(ctx, job.Args.Job)
		}), append(opts, rivermw.InLine(pool))...))
	client, err := river.NewClient(riverpgxv5.New(pool), cfg)
	require.NoError(f.t, err)
	require.NoError(f.t, client.Start(context.Background()))
	stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		assert.NoError(f.t, client.StopAndCancel(ctx))
	})
	f.t.Cleanup(stop)
	return stop
}

// Enqueue implements [jobtest.Framework].
func (f *framework) Enqueue(j jobtest.Job) {
	opts := new(river.InsertOpts)
	if j.Last {
		opts.MaxAttempts = 1
	}
	result, err := f.client.Insert(context.Background(), named{j}, opts)
	require.NoError(f.t, err)
	f.ids.Store(j.Name, result.Job.ID)
}

func (f *framework) id(name string) int64 {
	id, _ := f.ids.Load(name)
	return id.(int64)
}

// Cancel implements [jobtest.Framework].
func (f *framework) Cancel(name string) {
	_, err := f.client.JobCancel(context.Background(), f.id(name))
	require.NoError(f.t, err)
}

// Remove implements [jobtest.Framework].
func (f *framework) Remove(name string) {
	f.awaitSnoozed(f.id(name))
	_, err := f.client.JobDelete(context.Background(), f.id(name))
	require.NoError(f.t, err)
}

// Left implements [jobtest.Framework].
func (f *framework) Left() int {
	states, _ := f.states()
	return states["available"] + states["running"] + states["scheduled"] + states["retryable"]
}

// Failed implements [jobtest.Framework].
func (f *framework) Failed() (n int) {
	err := f.pool.QueryRow(context.Background(),
		"SELECT coalesce(sum(coalesce(array_length(errors, 1), 0)), 0) FROM river_job").Scan(&n)
	require.NoError(f.t, err)
	return n
}
