package rivermw_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertest"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/rivermw"
	"github.com/lockbeat/lockbeat/renewer"
)

// A test of a worker calls it with arguments alone.
func TestJobWithoutARow(t *testing.T) {
	t.Parallel()
	ran := false
	k, _ := scripted(t)
	w := rivermw.Wrap(k, byTenant,
		work(func(context.Context, *river.Job[invoice]) error {
			ran = true
			return nil
		}), rivermw.InLine(failing{t}))
	require.NoError(t, w.Work(t.Context(), &river.Job[invoice]{Args: invoice{Tenant: "t1"}}))
	assert.True(t, ran)
}

// failing is a pool that is not to be asked.
type failing struct{ t *testing.T }

func (f failing) QueryRow(context.Context, string, ...any) pgx.Row {
	f.t.Error("asked for a job that no client has")
	return nil
}

// A job is rescued while it runs: it never overlaps itself.
func TestRescuedJobNeverOverlapsItself(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	began, let := make(chan int64, 4), make(chan struct{})
	soonLapses := func(cfg *renewer.Config) { cfg.TTL = 2 * time.Second }
	for range 2 {
		e.client(rivermw.Wrap(e.keeper(soonLapses), byTenant,
			work(func(ctx context.Context, j *river.Job[invoice]) error {
				began <- j.ID
				select {
				case <-let:
				case <-ctx.Done():
				}
				return ctx.Err()
			}), rivermw.InLine(e.pool)), quick(4))
	}
	id := e.insert("t1")
	<-began
	_, err := e.pool.Exec(t.Context(), // as the rescuer and the scheduler do it
		"UPDATE river_job SET state = 'available', scheduled_at = now() WHERE id = $1", id)
	require.NoError(t, err)
	e.awaitSnoozed(id)
	require.Empty(t, began)
	let <- struct{}{}
	require.Equal(t, id, <-began)
	let <- struct{}{}
	e.awaitState(id, rivertype.JobStateCompleted)
}

// defaults is a worker with settings of its own.
type defaults struct {
	river.WorkerDefaults[invoice]
}

func (defaults) Work(context.Context, *river.Job[invoice]) error { return nil }
func (defaults) Timeout(*river.Job[invoice]) time.Duration       { return time.Minute }
func (defaults) NextRetry(*river.Job[invoice]) time.Time         { return time.Unix(1, 0) }
func (defaults) Middleware(*rivertype.JobRow) []rivertype.WorkerMiddleware {
	return make([]rivertype.WorkerMiddleware, 3)
}

func TestWorkersSettingsAreItsOwn(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	w := rivermw.Wrap(k, byTenant, defaults{})
	assert.Equal(t, time.Minute, w.Timeout(nil))
	assert.Equal(t, time.Unix(1, 0), w.NextRetry(nil))
	assert.Len(t, w.Middleware(nil), 3)
	const needs = "lockbeat: rivermw.Wrap needs a keeper (renewer.New), a key function and a worker"
	assert.PanicsWithValue(t, needs, func() { rivermw.Wrap(nil, byTenant, defaults{}) })
	assert.PanicsWithValue(t, needs, func() { rivermw.Wrap[invoice, string](k, nil, defaults{}) })
	assert.PanicsWithValue(t, needs, func() { rivermw.Wrap(k, byTenant, nil) })
	const pool = "lockbeat: rivermw.InLine needs a pool on River's database, such as a *pgxpool.Pool"
	assert.PanicsWithValue(t, pool, func() { rivermw.InLine[pgx.Row](nil) })
	assert.PanicsWithValue(t, pool, func() { rivermw.InLine((*pgxpool.Pool)(nil)) })
}

// River's own kit for tests runs a worker in a transaction, where no other
// connection sees the job: it does not stand in line.
func TestRiversTestKit(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var r record
	var mu sync.Mutex
	var refusals []error
	w := r.worker(e.keeper(), 0, rivermw.InLine(e.pool))
	driver := riverpgxv5.New(nil)
	kit := rivertest.NewWorker(t, driver, &river.Config{
		Middleware: []rivertype.Middleware{river.WorkerMiddlewareFunc(
			func(ctx context.Context, _ *rivertype.JobRow, next func(context.Context) error) error {
				err := next(ctx)
				mu.Lock()
				defer mu.Unlock()
				refusals = append(refusals, err)
				return err
			})},
	}, w)
	tx, err := e.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	result, err := kit.Work(t.Context(), t, tx, invoice{Tenant: "t1"}, nil)
	require.NoError(t, err)
	assert.Equal(t, river.EventKindJobCompleted, result.EventKind)
	release := hold(t, e.keeper(), "t1")
	result, err = kit.Work(t.Context(), t, tx, invoice{Tenant: "t1"}, nil)
	require.NoError(t, err)
	assert.Equal(t, river.EventKindJobSnoozed, result.EventKind)
	release()
	require.Len(t, refusals, 2)
	require.NoError(t, refusals[0])
	require.ErrorIs(t, refusals[1], renewer.ErrBusy)
	snooze, ok := errors.AsType[*river.JobSnoozeError](refusals[1])
	require.True(t, ok)
	assert.Positive(t, snooze.Duration)
	assert.Regexp(t, `^lockbeat: job not run, it comes back in about .*, with no attempt used up: `+
		`acquire "invoice:t1": held by another owner`, refusals[1].Error())
}
