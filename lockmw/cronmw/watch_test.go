package cronmw_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// watcher is an observer that keeps what it hears of runs, and counts what it
// hears of locks.
type watcher struct {
	renewer.NopObserver

	mu       sync.Mutex
	runs     []renewer.Run
	granted  int
	standsBy int
}

func (w *watcher) Ran(_ context.Context, e renewer.Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs = append(w.runs, e)
}

func (w *watcher) AcquireEnd(ctx context.Context, e renewer.AcquireEnd) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case e.StandBy:
		w.standsBy++
	case e.Err == nil:
		w.granted++
	}
	return ctx
}

// last is the latest run, which must have an outcome.
func (w *watcher) last(t *testing.T, want renewer.Outcome) renewer.Run {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.NotEmpty(t, w.runs)
	got := w.runs[len(w.runs)-1]
	require.Equal(t, want, got.Outcome)
	return got
}

// watched adds the job to a new node of a store.
func watched(
	t *testing.T, in *memory.Store, fn func(context.Context) error, opts ...cronmw.Option,
) (*cronmw.Job, *watcher) {
	t.Helper()
	w := new(watcher)
	k, err := renewer.New(in, renewer.Config{TTL: renewer.DefaultTTL, Observer: w})
	require.NoError(t, err)
	node, err := cronmw.New(t.Context(), k)
	require.NoError(t, err)
	j, err := node.Job("job", cronmw.Every(minute), fn, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Shutdown(context.Background())); synctest.Wait() })
	return j, w
}

// Each node tells when a run of the job last succeeded, on whichever node, and
// by when the next one has to: a job that fails, or is not called, is overdue
// after two ticks. That outlives the nodes.
func TestTheLastSuccessIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in, fails := memory.New(), errors.New("fails")
		var err error
		work := func(context.Context) error { elapse(10 * time.Second); return err }
		first, one := watched(t, in, work)
		added := one.last(t, renewer.OutcomeAdded)
		assert.Zero(t, added.LastSuccess)
		assert.Equal(t, start.Add(2*minute+30*time.Second), added.DueBy.UTC(), "with its grace")

		elapse(minute)
		first.Run()
		ran := one.last(t, renewer.OutcomeRan)
		ended := start.Add(minute + 10*time.Second)
		assert.Equal(t, ended, ran.LastSuccess.UTC())
		assert.Equal(t, start.Add(3*minute+10*time.Second), ran.DueBy.UTC(), "it takes 10 s")

		err = fails
		elapse(50 * time.Second)
		first.Run()
		failed := one.last(t, renewer.OutcomeRan)
		require.ErrorIs(t, failed.Err, fails)
		assert.True(t, ran.DueBy.Equal(failed.DueBy))

		second, other := watched(t, in, work)
		second.Run()
		skipped := other.last(t, renewer.OutcomeSkipped)
		assert.Equal(t, ended, skipped.LastSuccess.UTC())
		assert.Equal(t, ran.DueBy.UTC(), skipped.DueBy.UTC())
	})
}

// A node that stands by for a run is granted no lock in an observer's eyes,
// unless it takes over.
func TestWhoStandsByIsNotGranted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := memory.New()
		var nodes []*watcher
		for range 4 {
			j, w := watched(t, in, takes(10*time.Second), cronmw.TakeOver(3))
			nodes = append(nodes, w)
			go func() {
				for range 5 {
					elapse(time.Until(time.Now().Truncate(minute).Add(minute)))
					j.Run()
				}
			}()
		}
		elapse(6 * minute)
		granted, standsBy := 0, 0
		for _, w := range nodes {
			granted += w.granted
			standsBy += w.standsBy
		}
		assert.Equal(t, 5, granted, "each tick, once")
		assert.Equal(t, 15, standsBy)
	})
}
