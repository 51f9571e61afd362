package rivermw_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/lockmw/rivermw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// scripted returns a keeper on a store that records what it is asked.
func scripted(t testing.TB) (*renewer.Keeper, *script.Store) {
	s := script.New()
	return newKeeper(t, s, renewer.Config{TTL: renewer.DefaultTTL}), s
}

// jobOf is a tenant's job as River gives it to a worker.
func jobOf(tenant string) *river.Job[invoice] {
	return &river.Job[invoice]{
		JobRow: &rivertype.JobRow{ID: 1, Queue: river.QueueDefault}, Args: invoice{Tenant: tenant},
	}
}

// is returns whether River finds an error of a kind in another.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

var (
	snoozed   = is[*river.JobSnoozeError]
	cancelled = is[*river.JobCancelError]
)

// What River is told of a job that does not run.
func TestJobThatDoesNotRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tenant  string
		options []jobs.Option
		before  func(k *renewer.Keeper, s *script.Store, end func())
		told    func(error) bool
		reason  error
	}{
		"the holder does its work": {
			tenant: "t1", options: []jobs.Option{lockmw.Skip()},
			before: func(_ *renewer.Keeper, s *script.Store, _ func()) {
				s.Overwrite(nameOf("t1"), store.Holder{}, time.Hour)
			},
		},
		"no usable key": {told: cancelled, reason: renewer.ErrName},
		"the keeper is shut down": {
			tenant: "t1", told: snoozed, reason: renewer.ErrShutdown,
			before: func(k *renewer.Keeper, _ *script.Store, _ func()) {
				assert.NoError(t, k.Shutdown(context.Background()))
			},
		},
		"a middleware ends its context": {
			tenant: "t1", told: snoozed, reason: context.Canceled,
			before: func(_ *renewer.Keeper, _ *script.Store, end func()) { end() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, s := scripted(t)
			ctx, end := context.WithCancel(t.Context())
			defer end()
			if c.before != nil {
				c.before(k, s, end)
			}
			var r record
			err := r.worker(k, 0, c.options...).Work(ctx, jobOf(c.tenant))
			require.ErrorIs(t, err, c.reason)
			assert.True(t, c.told == nil || c.told(err), err)
			assert.Empty(t, r.ids)
		})
	}
}

// Where a job's lock was lost, what its worker tells River stands beside that.
func TestLostLockLeavesWhatTheWorkerTells(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]error{
		"an error": errors.New("failed"), "a snooze": river.JobSnooze(time.Hour),
		"a cancel": river.JobCancel(errors.New("failed")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k, s := scripted(t)
				err := rivermw.Wrap(k, byTenant,
					work(func(ctx context.Context, _ *river.Job[invoice]) error {
						s.Delete(nameOf("t1"))
						<-ctx.Done()
						return own
					})).Work(t.Context(), jobOf("t1"))
				require.ErrorIs(t, err, own)
				require.ErrorIs(t, err, renewer.ErrLost)
			})
		})
	}
}

// A job that was replaced is cancelled, and River is told what it failed with.
func TestReplacedJobTellsWhatItFailedWith(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		own, replaced, newest := errors.New("failed"), jobOf("t1"), jobOf("t1")
		newest.ID = replaced.ID + 1
		w := rivermw.Wrap(newKeeper(t, memory.New(), renewer.Config{TTL: renewer.DefaultTTL}), byTenant,
			work(func(ctx context.Context, job *river.Job[invoice]) error {
				if job.ID == newest.ID {
					return nil
				}
				<-ctx.Done()
				return own
			}), lockmw.Replace())
		told := make(chan error, 1)
		go func() { told <- w.Work(t.Context(), replaced) }()
		synctest.Wait()
		require.NoError(t, w.Work(t.Context(), newest))
		err := <-told
		require.ErrorIs(t, err, own)
		assert.True(t, cancelled(err), err)
	})
}

// aliased is an invoice whose kind was "bill".
type aliased struct{ invoice }

func (aliased) KindAliases() []string { return []string{"bill"} }

func TestAliasOfAKindHasItsOperation(t *testing.T) {
	t.Parallel()
	k, s := scripted(t)
	w := rivermw.Wrap(k, func(a aliased) string { return byTenant(a.invoice) },
		river.WorkFunc(func(context.Context, *river.Job[aliased]) error { return nil }))
	row := &rivertype.JobRow{ID: 1, Kind: "bill", Queue: river.QueueDefault}
	args := aliased{invoice{Tenant: "t1"}}
	require.NoError(t, w.Work(t.Context(), &river.Job[aliased]{JobRow: row, Args: args}))
	claim := s.Calls(script.Acquire)[0].Claims[0]
	assert.Equal(t, []string{nameOf("t1"), "invoice"}, []string{claim.Name, claim.Holder.Operation})
}

// A database that was made anew gives low numbers again: by those alone its
// jobs were all older than those before, and were completed unrun.
func TestRanks(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.November, 29, 12, 0, 0, 0, time.UTC)
	last := int64(0)
	for _, job := range []rivertype.JobRow{
		{ID: 5_000_000, CreatedAt: at},
		{ID: 5_000_001, CreatedAt: at}, // of one transaction
		{ID: 1, CreatedAt: at.Add(time.Millisecond)},
		{ID: 2, CreatedAt: at.AddDate(50, 0, 0)},
	} {
		rank := rivermw.RankOf(&job)
		assert.Greater(t, rank, last)
		last = rank
	}
	assert.EqualValues(t, 7, rivermw.RankOf(&rivertype.JobRow{ID: 7}), "as in a test of a worker")
}
