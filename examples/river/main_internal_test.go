package main

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/demo/demotest"
	"github.com/lockbeat/lockbeat/internal/testutil/pgtest"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/fencedb/fencedpgx"
	"github.com/lockbeat/lockbeat/lockmw/fencetx"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// migrated is a pool on a database with the tables of River and of fences.
func migrated(t *testing.T) *pgxpool.Pool {
	t.Helper()
	server := pgtest.Start(t)
	pool, err := pgxpool.New(t.Context(), server.DSN())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	require.NoError(t, err)
	_, err = migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), fencetx.PostgreSQLSchema)
	require.NoError(t, err)
	return pool
}

// keeper is one that hears of no other.
func keeper(t *testing.T) *renewer.Keeper {
	t.Helper()
	k, err := renewer.New(memory.New(), renewer.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Shutdown(context.WithoutCancel(t.Context()))) })
	return k
}

// A worker completes its job in the transaction of what it does. One that was paused, and has lost
// its lock, completes nothing.
func TestJobsAreCompletedUnderALock(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	db, own, other := fencedpgx.New(pool), keeper(t), keeper(t)
	began := make(chan error, 1)
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(
		func(ctx context.Context, job *river.Job[Invoice]) error {
			return lockmw.Run(ctx, own, "tenant", func(ctx context.Context) error {
				if job.Args.Tenant == "late" {
					assert.NoError(t, lockmw.Run(t.Context(), other, "tenant",
						func(ctx context.Context) error {
							return pgx.BeginFunc(ctx, db, func(pgx.Tx) error { return nil })
						}))
				}
				err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
					_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
					return err
				})
				began <- err
				return err
			})
		}))
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}},
		FetchCooldown: river.FetchCooldownMin,
		Logger:        slog.New(slog.DiscardHandler),
		Workers:       workers,
	})
	require.NoError(t, err)
	require.NoError(t, client.Start(t.Context()))
	state := func(tenant string) (state string) {
		job, err := client.Insert(t.Context(), Invoice{tenant}, &river.InsertOpts{MaxAttempts: 1})
		require.NoError(t, err)
		if tenant == "late" {
			require.ErrorIs(t, <-began, renewer.ErrLost)
		} else {
			require.NoError(t, <-began)
		}
		require.Eventually(t, func() bool {
			require.NoError(t, pool.QueryRow(t.Context(),
				"SELECT state FROM river_job WHERE id = $1", job.Job.ID).Scan(&state))
			return state != "running"
		}, 10*time.Second, time.Millisecond)
		return state
	}
	require.Equal(t, "discarded", state("late"))
	require.Equal(t, "completed", state("now"))
	require.NoError(t, client.Stop(context.WithoutCancel(t.Context())))
}

// River inserts into a transaction that carries a fence, and what a late holder inserts is none.
func TestInsertsUnderALock(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	require.NoError(t, err)
	db := fencedpgx.New(pool)
	insert := func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			_, err := client.InsertTx(ctx, tx, Invoice{"a"}, nil)
			return err
		})
	}
	require.NoError(t, lockmw.Run(t.Context(), keeper(t), "tenant:a", func(late context.Context) error {
		require.NoError(t, insert(late))
		require.NoError(t, lockmw.Run(t.Context(), keeper(t), "tenant:a", insert))
		require.ErrorIs(t, insert(late), renewer.ErrLost)
		return nil
	}))
	var jobs int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM river_job").Scan(&jobs))
	require.Equal(t, 2, jobs)
}

func TestStory(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).DSN()
	tell := func(ctx context.Context, d *demo.Demo) error { return tell(ctx, d, url) }
	demotest.AtOnce(
		func() { demotest.Untouched(t, tell) },
		func() {
			// Fences refuse what is written beside another holder: there are too few documents,
			// and no two of one number.
			verdict := demotest.Breaks(t, demo.Setting{Apart: true}, tell,
				"documents written", "requests answered with 200")
			assert.NotContains(t, verdict, "numbers given twice")
		},
	)
}
