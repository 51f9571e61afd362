package rivermw_test

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/fencetx"
	"github.com/lockbeat/lockbeat/lockmw/rivermw"
	"github.com/lockbeat/lockbeat/renewer"
)

type Invoice struct{ Tenant string }

func (Invoice) Kind() string { return "invoice" }

type InvoiceWorker struct {
	river.WorkerDefaults[Invoice]

	pool *pgxpool.Pool
}

// Work numbers a tenant's next invoice, and completes its job in the same
// transaction. A process that was paused, and has lost the lock meanwhile,
// commits neither.
func (w *InvoiceWorker) Work(ctx context.Context, job *river.Job[Invoice]) error {
	tx, err := w.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if err := fencetx.Pgx(ctx, tx, lockmw.Key("tenant", job.Args.Tenant)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "UPDATE tenants SET invoices = invoices + 1 WHERE name = $1",
		job.Args.Tenant); err != nil {
		return err
	}
	if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// Of a tenant's invoices one is worked at a time, on any client.
func ExampleWrap() {
	_ = func(keeper *renewer.Keeper, pool *pgxpool.Pool) (*river.Client[pgx.Tx], error) {
		workers := river.NewWorkers()
		river.AddWorker(workers, rivermw.Wrap(keeper,
			func(i Invoice) string { return lockmw.Key("tenant", i.Tenant) },
			&InvoiceWorker{pool: pool}, rivermw.InLine(pool)))
		return river.NewClient(riverpgxv5.New(pool), &river.Config{
			Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 20}},
			Workers: workers,
		})
	}
}

// At most three of a tenant's invoices are worked at a time.
func ExampleWrap_limit() {
	_ = func(keeper *renewer.Keeper, pool *pgxpool.Pool) river.Worker[Invoice] {
		return rivermw.Wrap(keeper, func(i Invoice) lockmw.Set {
			return lockmw.Limit(lockmw.Key("tenant", i.Tenant), 3)
		}, &InvoiceWorker{pool: pool}, rivermw.InLine(pool))
	}
}
