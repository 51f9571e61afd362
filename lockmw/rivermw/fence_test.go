package rivermw_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/fencetx"
	"github.com/lockbeat/lockbeat/lockmw/rivermw"
	"github.com/lockbeat/lockbeat/renewer"
)

// pay completes a job in the transaction of what it does, under its lock.
func pay(ctx context.Context, pool *pgxpool.Pool, job *river.Job[invoice]) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if err := fencetx.Pgx(ctx, tx, nameOf(job.Args.Tenant)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO paid VALUES ($1)", job.ID); err != nil {
		return err
	}
	if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// paid are the jobs that were paid.
func (e *env) paid() []int64 {
	rows, err := e.pool.Query(e.t.Context(), "SELECT id FROM paid")
	require.NoError(e.t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(e.t, err)
	return ids
}

// A job completes itself in its own transaction. A process that was paused, and
// another one has had the lock since, completes and pays nothing.
func TestLateHolderCompletesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	_, err := e.pool.Exec(t.Context(), fencetx.PostgreSQLSchema+"CREATE TABLE paid (id BIGINT)")
	require.NoError(t, err)
	others := e.keeper()
	pauses := make(chan bool, 2)
	refused := make(chan error, 2)
	e.client(rivermw.Wrap(e.keeper(), byTenant,
		work(func(ctx context.Context, job *river.Job[invoice]) error {
			if <-pauses {
				require.NoError(t, e.Do("DEL", "lockbeat:{invoice:t1}").Error())
				later := func(ctx context.Context) (any, error) {
					tx, err := e.pool.Begin(ctx)
					if err != nil {
						return nil, err
					}
					if err := fencetx.Pgx(ctx, tx, nameOf("t1")); err != nil {
						return nil, err
					}
					return nil, tx.Commit(ctx)
				}
				_, err := lockmw.Do(context.Background(), others, nameOf("t1"), later)
				assert.NoError(t, err)
				ctx = context.WithoutCancel(ctx) // it does not know yet
			}
			err := pay(ctx, e.pool, job)
			refused <- err
			return err
		})), quick(1))
	pauses <- true
	late := e.awaitState(e.insert("t1"), rivertype.JobStateRetryable)
	require.ErrorIs(t, <-refused, renewer.ErrLost)
	assert.Greater(t, time.Until(late.ScheduledAt), time.Minute)
	assert.Empty(t, e.paid())
	pauses <- false
	id := e.insert("t1")
	e.awaitState(id, rivertype.JobStateCompleted)
	require.NoError(t, <-refused)
	assert.Equal(t, []int64{id}, e.paid())
}
