package main

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
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

// River inserts into a transaction that carries a fence, and what a late holder inserts is none.
func TestInsertsUnderALock(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	pool, err := pgxpool.New(t.Context(), server.DSN())
	require.NoError(t, err)
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	require.NoError(t, err)
	_, err = migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), fencetx.PostgreSQLSchema)
	require.NoError(t, err)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	require.NoError(t, err)
	db := fencedpgx.New(pool)
	insert := func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			_, err := client.InsertTx(ctx, tx, Invoice{"a"}, nil)
			return err
		})
	}
	keeper := func() *renewer.Keeper {
		k, err := renewer.New(memory.New(), renewer.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, k.Shutdown(context.WithoutCancel(t.Context()))) })
		return k
	}
	require.NoError(t, lockmw.Run(t.Context(), keeper(), "tenant:a", func(late context.Context) error {
		require.NoError(t, insert(late))
		require.NoError(t, lockmw.Run(t.Context(), keeper(), "tenant:a", insert))
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
			demotest.Breaks(t, demo.Setting{Apart: true}, tell, "numbers given twice")
		},
	)
}
