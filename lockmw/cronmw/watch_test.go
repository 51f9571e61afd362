package cronmw_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// Each node tells when a run of the job last succeeded, on whichever node, and
// by when the next one has to: a job that fails, or is not called, is overdue
// after two ticks. That outlives the nodes.
func TestTheLastSuccessIsTold(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		fails := errors.New("fails")
		var err error
		work := func(context.Context) error { elapse(10 * time.Second); return err }
		first := f.add(0).job(cronmw.Every(minute), work)
		assert.Zero(t, f.added.LastSuccess)
		assert.Equal(t, start.Add(2*minute+30*time.Second), f.added.DueBy.UTC(), "with its grace")
		elapse(minute)
		first.Run()
		ran, ended := f.last(), start.Add(minute+10*time.Second)
		require.Equal(t, renewer.OutcomeRan, ran.Outcome)
		assert.Equal(t, ended, ran.LastSuccess.UTC())
		assert.Equal(t, start.Add(3*minute+10*time.Second), ran.DueBy.UTC(), "it takes 10 s")
		err = fails
		elapse(50 * time.Second)
		first.Run()
		failed := f.last()
		require.Equal(t, renewer.OutcomeRan, failed.Outcome)
		require.ErrorIs(t, failed.Err, fails)
		assert.True(t, ran.DueBy.Equal(failed.DueBy))
		f.add(0).job(cronmw.Every(minute), work).Run()
		skipped := f.last()
		require.Equal(t, renewer.OutcomeSkipped, skipped.Outcome)
		assert.Equal(t, ended, skipped.LastSuccess.UTC())
		assert.Equal(t, ran.DueBy.UTC(), skipped.DueBy.UTC())
	})
}

// A node that stands by for a run is granted no lock in an observer's eyes,
// unless it takes over.
func TestWhoStandsByIsNotGranted(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		for range 4 {
			f.add(0).runs(cronmw.Every(minute), takes(10*time.Second), cronmw.TakeOver(3))
		}
		elapse(5*minute + 30*time.Second)
		assert.Equal(t, 5, f.granted, "each tick, once")
		assert.Equal(t, 15, f.standsBy)
	})
}
