package main

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/internal/testutil/pgtest"
	"github.com/lockbeat/lockbeat/lockmw/fencetx"
)

// openDatabase opens a schema of its own with River's tables and ours, in the
// database at url, or, if that is empty, on a server of its own. All of it is
// gone when the demonstration ends.
func openDatabase(ctx context.Context, d *demo.Demo, url string) (*pgxpool.Pool, error) {
	if url == "" {
		server, err := pgtest.Open()
		if errors.Is(err, pgtest.ErrMissing) {
			err = errors.Join(err, errors.New("or name a database in DATABASE_URL"))
		}
		if err != nil {
			return nil, err
		}
		d.AtEnd(func(context.Context) error { return server.Close() })
		url = server.DSN()
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	schema := strings.ReplaceAll(d.Name, "-", "_")
	config.ConnConfig.RuntimeParams["search_path"] = schema
	config.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	d.AtEnd(func(ctx context.Context) error {
		_, err := pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
		pool.Close()
		return err
	})
	if _, err := pool.Exec(ctx, "CREATE SCHEMA "+schema); err != nil {
		return nil, err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	_, err = pool.Exec(ctx, fencetx.PostgreSQLSchema+
		"CREATE TABLE documents (tenant TEXT, number INT, kind TEXT)")
	return pool, err
}

// found is what is in the database in the end.
type found struct {
	documents, twice int // documents in all, and numbers that a tenant has twice
	unrun, counted   int // jobs that are not completed, and attempts beyond the first
	waited, snoozes  int // jobs that stood in line, and how often all of them went there
}

func look(ctx context.Context, pool *pgxpool.Pool) (found, error) {
	rows, err := pool.Query(ctx, `SELECT
		(SELECT count(*) FROM documents) AS documents,
		(SELECT count(*) - count(DISTINCT (tenant, number)) FROM documents) AS twice,
		(SELECT count(*) FROM river_job WHERE state <> 'completed') AS unrun,
		(SELECT coalesce(sum(attempt - 1), 0) FROM river_job WHERE attempt > 1) AS counted,
		(SELECT count(*) FROM river_job WHERE metadata ? 'snoozes') AS waited,
		(SELECT coalesce(sum((metadata->>'snoozes')::int), 0) FROM river_job) AS snoozes`)
	if err != nil {
		return found{}, err
	}
	return pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (f found, err error) {
		return f, row.Scan(&f.documents, &f.twice, &f.unrun, &f.counted, &f.waited, &f.snoozes)
	})
}
