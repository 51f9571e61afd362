package main

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/fencedb/fencedpgx"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/rivermw"
	"github.com/lockbeat/lockbeat/renewer"
)

// Invoice is the arguments of a job: an invoice is written for a tenant.
type Invoice struct{ Tenant string }

// Kind implements river.JobArgs.
func (Invoice) Kind() string { return "invoice" }

// drawn is how long it takes to draw a document.
const drawn = 5 * time.Millisecond

// write gives a tenant's document the next number: it reads, draws, and writes.
// It knows nothing of locks.
func write(ctx context.Context, db *fencedpgx.Pool, tenant, kind string) error {
	var number int
	err := db.QueryRow(ctx, "SELECT count(*) + 1 FROM documents WHERE tenant = $1", tenant).
		Scan(&number)
	if err != nil {
		return err
	}
	select {
	case <-time.After(drawn):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	_, err = db.Exec(ctx, "INSERT INTO documents (tenant, number, kind) VALUES ($1, $2, $3)",
		tenant, number, kind)
	return err
}

// worker writes invoices, of each tenant one at a time. The lock is
// "tenant:ID", as in routes.
func worker(keeper *renewer.Keeper, pool *pgxpool.Pool) river.Worker[Invoice] {
	db := fencedpgx.New(pool) // a job that was paused, and has lost its lock, writes nothing
	return rivermw.Wrap(keeper, func(i Invoice) string { return lockmw.Key("tenant", i.Tenant) },
		river.WorkFunc(func(ctx context.Context, job *river.Job[Invoice]) error {
			return write(ctx, db, job.Args.Tenant, "invoice")
		}),
		rivermw.InLine(pool)) // a job that waits keeps no worker
}

// routes write a credit note when they are asked to, under the same lock.
func routes(keeper *renewer.Keeper, pool *pgxpool.Pool) http.Handler {
	db := fencedpgx.New(pool)
	mux := http.NewServeMux()
	mux.Handle("POST /tenants/{id}/credits", httpmw.Middleware(keeper,
		httpmw.PathValue("tenant", "id"))(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if write(r.Context(), db, r.PathValue("id"), "credit") == nil {
				return // 200
			}
			http.Error(w, "not written", http.StatusInternalServerError)
		})))
	return mux
}

// newClient is a River client that runs w's jobs.
func newClient(pool *pgxpool.Pool, w river.Worker[Invoice]) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	return river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 20}},
		FetchCooldown: river.FetchCooldownMin,        // the next job comes at once
		Logger:        slog.New(slog.DiscardHandler), // yours would log
		Workers:       workers,
	})
}
