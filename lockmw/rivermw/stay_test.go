package rivermw_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/lockmw/rivermw"
)

var (
	early = jobs.Result{Outcome: jobs.OutcomeBack, InLine: true}
	ran   = jobs.Result{Outcome: jobs.OutcomeRan}
)

// A job that was called too early was snoozed once more: River writes that 250
// ms later, so that its lock was idle for as long.
func TestJobCalledTooEarlyStays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left    time.Duration // of the job's time, 0 for no end
		results []jobs.Result // and then it goes on to be early
		fresh   bool          // it was not called
		takes   time.Duration
		tries   int
	}{
		"its turn":             {results: []jobs.Result{ran}, tries: 1},
		"no line":              {results: []jobs.Result{{Outcome: jobs.OutcomeBack}}, tries: 1},
		"a newcomer goes back": {fresh: true, tries: 1},
		"its turn comes":       {results: []jobs.Result{early, early, ran}, tries: 3, takes: 12 * time.Millisecond},
		"its turn does not":    {tries: 7, takes: 252 * time.Millisecond},
		"a short time":         {left: 6400 * time.Millisecond, tries: 5, takes: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.left > 0 {
					ctx, cancel = context.WithTimeout(ctx, c.left)
					defer cancel()
				}
				var s rivermw.Stays
				begun, tries := time.Now(), 0
				s.Until(ctx, !c.fresh, func() jobs.Result {
					tries++
					if tries <= len(c.results) {
						return c.results[tries-1]
					}
					return early
				})
				assert.Equal(t, c.takes, time.Since(begun))
				assert.Equal(t, c.tries, tries)
			})
		})
	}
}

// Jobs whose locks are free find a worker, however many others stay. Where few
// jobs are, as those of a limit, four may stay: with one of them a limit of
// three was slower than a limit of two.
func TestHalfOfAWorkersJobsStay(t *testing.T) {
	t.Parallel()
	for jobsHere, mayStay := range map[int]int{1: 1, 4: 4, 5: 4, 20: 10} {
		synctest.Test(t, func(t *testing.T) {
			var s rivermw.Stays
			begun := time.Now()
			stayed := make(chan bool, jobsHere)
			for range jobsHere {
				go func() {
					first := true
					s.Until(t.Context(), true, func() jobs.Result {
						if first {
							first = false
							<-time.After(time.Second) // until all are here
						}
						return early
					})
					stayed <- time.Since(begun) > time.Second
				}()
			}
			n := 0
			for range jobsHere {
				if <-stayed {
					n++
				}
			}
			assert.Equal(t, mayStay, n, "of %d", jobsHere)
			s.Until(t.Context(), true, func() jobs.Result { return early })
			assert.Equal(t, 1252*time.Millisecond+252*time.Millisecond, time.Since(begun),
				"one may stay again")
		})
	}
}
