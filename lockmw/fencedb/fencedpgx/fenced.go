package fencedpgx

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockbeat/lockbeat/lockmw/fencedb"
	"github.com/lockbeat/lockbeat/lockmw/internal/fence"
)

// bare is what pgx's pools and connections have in common.
type bare interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	CopyFrom(ctx context.Context, table pgx.Identifier, columns []string,
		source pgx.CopyFromSource) (int64, error)
}

// fenced has the methods of bare, with fences.
type fenced struct {
	bare  bare
	guard *fence.Guard
	conn  *pgx.Conn    // nil: a pool, whose statements are in no transaction
	begun *fence.Fence // of the latest transaction of conn
	reads bool         // it is read-only
}

func newGuard(opts []fencedb.Option) *fence.Guard {
	g := &fence.Guard{Dialect: fence.PostgreSQL}
	for _, opt := range opts {
		opt(g)
	}
	return g
}

// isOpen reports whether a transaction is open on a connection.
func (d *fenced) isOpen() bool { return d.conn != nil && d.conn.PgConn().TxStatus() != 'I' }

// outside is the fence that a statement is to be sent with, nil if with none.
func (d *fenced) outside(ctx context.Context, query string) (*fence.Fence, error) {
	if d.isOpen() {
		return nil, d.guard.InTx(ctx, d.begun, d.reads, query)
	}
	d.note(nil, false)
	f, kind, err := d.guard.Outside(ctx, query)
	if kind == fence.Reads && err == nil {
		err = d.first(ctx)
	}
	return f, err
}

// first raises the fence before what the lease reads first.
func (d *fenced) first(ctx context.Context) error {
	return d.guard.First(ctx, func(f *fence.Fence) error { return d.raise(ctx, f) })
}

// note keeps the fence of a transaction. A pool, which is used concurrently,
// has none.
func (d *fenced) note(f *fence.Fence, reads bool) {
	if d.conn != nil {
		d.begun, d.reads = f, reads
	}
}

// fence calls begin with the tokens of f raised.
func (d *fenced) fence(ctx context.Context, f *fence.Fence, begin func() error) error {
	return d.guard.Begun(ctx, f, func() error { return d.raise(ctx, f) }, begin)
}

func (d *fenced) raise(ctx context.Context, f *fence.Fence) error {
	if pool, ok := d.bare.(*pgxpool.Pool); ok {
		return pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
			return newPoolConn(c, d.guard).raise(ctx, f)
		})
	}
	return d.guard.Raise(ctx, f, func() error {
		for _, text := range f.Raise() {
			if _, err := d.conn.Exec(ctx, text); err != nil {
				_, _ = d.conn.Exec(context.WithoutCancel(ctx), "ROLLBACK")
				return err
			}
		}
		return nil
	})
}

// Begin is BeginTx.
func (d *fenced) Begin(ctx context.Context) (pgx.Tx, error) {
	return d.BeginTx(ctx, pgx.TxOptions{})
}

// BeginTx begins a transaction that carries the fence of ctx. It fails with
// renewer.ErrLost if a later holder of a lock has come.
func (d *fenced) BeginTx(ctx context.Context, o pgx.TxOptions) (tx pgx.Tx, err error) {
	reads := o.AccessMode == pgx.ReadOnly && o.BeginQuery == ""
	f, carried, err := d.guard.OfTx(ctx, reads)
	switch {
	case err != nil:
	case d.isOpen() && (f != nil || d.begun != nil):
		err = fence.ErrOpen
	case carried == nil:
		if reads && !d.isOpen() {
			err = d.first(ctx)
		}
		if err == nil {
			tx, err = d.bare.BeginTx(ctx, o)
		}
	default:
		err = d.fence(ctx, f, func() (err error) {
			tx, err = begin(ctx, d.bare, o, f)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	d.note(f, reads)
	return tx, nil
}

// begin sends BEGIN and the checks in one round trip.
func begin(
	ctx context.Context, db interface {
		SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	}, o pgx.TxOptions, f *fence.Fence,
) (pgx.Tx, error) {
	b := &pgx.Batch{}
	b.BeginTx(o)
	check(b, f)
	results := db.SendBatch(ctx, b)
	tx, err := results.Tx(), results.Close()
	if err != nil {
		_ = tx.Rollback(context.WithoutCancel(ctx)) // so that the connection can be used again
		return nil, err
	}
	return tx, nil
}

func check(b *pgx.Batch, f *fence.Fence) {
	for _, l := range f.Locks {
		b.Queue(fence.PostgresCheck, []byte(l.Name), l.Token)
	}
}

// send sends the checks and more in one round trip, which is one transaction to
// the server. If it fails at once, that may be since the server does not take
// what is behind the checks.
func (d *fenced) send(
	ctx context.Context, f *fence.Fence, more ...*pgx.QueuedQuery,
) (results pgx.BatchResults, err error) {
	var failed error
	err = d.fence(ctx, f, func() error {
		b := &pgx.Batch{}
		check(b, f)
		for _, q := range more { // copies: one keeps what one connection has prepared
			again := *q
			b.QueuedQueries = append(b.QueuedQueries, &again)
		}
		results = d.bare.SendBatch(ctx, b)
		for range f.Locks {
			if _, failed = results.Exec(); failed != nil {
				_ = results.Close()
				return failed
			}
		}
		return nil
	})
	if failed != nil && ctx.Err() != nil && !pgconn.SafeToRetry(failed) &&
		failed != ctx.Err() { //nolint:errorlint // that very error comes of a pool that is empty
		return nil, fence.Undecided(ctx)
	}
	if _, unclear := errors.AsType[*fence.Error](err); unclear && failed != nil {
		tx, ours := d.BeginTx(ctx, pgx.TxOptions{})
		if ours == nil {
			return nil, cmp.Or(tx.Rollback(context.WithoutCancel(ctx)), failed)
		}
		return nil, ours
	}
	return results, err
}

// text is what is known of a query's: what rewrites it by other than names may
// send any.
func text(query string, args []any) string {
	for _, a := range args {
		switch a.(type) {
		case pgx.NamedArgs, pgx.StrictNamedArgs:
		case pgx.QueryRewriter:
			return ""
		}
	}
	return query
}

// alone reports whether a statement is none for a batch, or has options that a
// batch does not take: it needs a transaction.
func alone(query string, args []any) bool {
	if !fence.Pipes(text(query, args)) {
		return true
	}
	if len(args) == 0 {
		return false
	}
	switch args[0].(type) {
	case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID:
		return true
	}
	return false
}

// Exec runs a statement; under a lock and outside of a transaction in one of
// its own, with the fence.
func (d *fenced) Exec(
	ctx context.Context, query string, args ...any,
) (tag pgconn.CommandTag, err error) {
	f, err := d.outside(ctx, text(query, args))
	switch {
	case err != nil:
		return tag, err
	case f == nil:
		return d.bare.Exec(ctx, query, args...)
	case alone(query, args):
		err = pgx.BeginFunc(ctx, d, func(tx pgx.Tx) (err error) {
			tag, err = tx.Exec(ctx, query, args...)
			return err
		})
		return tag, fence.Alone(err)
	}
	results, err := d.send(ctx, f, &pgx.QueuedQuery{SQL: query, Arguments: args})
	if err != nil {
		return tag, fence.Alone(err)
	}
	tag, err = results.Exec()
	return tag, fence.Alone(cmp.Or(err, results.Close()))
}

// Query runs a query; under a lock and outside of a transaction in one of its
// own, with the fence, unless it surely writes nothing.
func (d *fenced) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	f, err := d.outside(ctx, text(query, args))
	switch {
	case err != nil:
		return failedRows{err: err}, err
	case f == nil:
		return d.bare.Query(ctx, query, args...)
	}
	return d.query(ctx, f, query, args)
}

// query is Query in a transaction of its own.
func (d *fenced) query(
	ctx context.Context, f *fence.Fence, query string, args []any,
) (_ pgx.Rows, err error) {
	var inner pgx.Rows
	var end func() error
	if alone(query, args) {
		tx, late := d.Begin(ctx)
		if late != nil {
			return failedRows{err: late}, late
		}
		inner, err = tx.Query(ctx, query, args...)
		end = func() error { return tx.Commit(ctx) }
	} else {
		results, late := d.send(ctx, f, &pgx.QueuedQuery{SQL: query, Arguments: args})
		if late != nil {
			return failedRows{err: late}, late
		}
		inner, err = results.Query()
		end = results.Close
	}
	own := &rows{Rows: inner, end: end}
	if err != nil { // then the caller need not close them
		own.Close()
	}
	return own, err
}

// QueryRow is Query for one row.
func (d *fenced) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	f, err := d.outside(ctx, text(query, args))
	if err != nil {
		return row{failedRows{err: err}, err}
	} else if f == nil {
		return d.bare.QueryRow(ctx, query, args...)
	}
	rows, err := d.query(ctx, f, query, args)
	return row{rows, err}
}

// SendBatch puts the fence before a batch.
func (d *fenced) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	var f *fence.Fence
	pipes := true
	for _, q := range b.QueuedQueries {
		query := text(q.SQL, q.Arguments)
		needs, err := d.outside(ctx, query)
		if err != nil {
			return pgx.FailedBatchResults(b, err)
		}
		f = cmp.Or(needs, f)
		pipes = pipes && fence.Pipes(query)
	}
	if f == nil {
		return d.bare.SendBatch(ctx, b)
	}
	if !pipes {
		return pgx.FailedBatchResults(b, fence.ErrPipe)
	}
	results, err := d.send(ctx, f, b.QueuedQueries...)
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return results
}

// CopyFrom copies; under a lock and outside of a transaction in one of its own.
func (d *fenced) CopyFrom(
	ctx context.Context, table pgx.Identifier, columns []string, source pgx.CopyFromSource,
) (n int64, err error) {
	f, err := d.outside(ctx, "COPY")
	if err != nil {
		return 0, err
	}
	if f == nil {
		return d.bare.CopyFrom(ctx, table, columns, source)
	}
	err = pgx.BeginFunc(ctx, d, func(tx pgx.Tx) (err error) {
		n, err = tx.CopyFrom(ctx, table, columns, source)
		return err
	})
	return n, err
}
