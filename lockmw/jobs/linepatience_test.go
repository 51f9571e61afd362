package jobs_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
)

// Each task that has waited in vain has the next one wait for twice as long.
// None waits while the process does: of many locks that are held for long, each
// would keep a worker most of the time.
func TestPatience(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, k *renewer.Keeper, l *jobs.Line) {
		f.at = contract.Arrived{Ask: true}
		for _, want := range []time.Duration{
			moment, 2 * moment, 4 * moment, 8 * moment, 8 * moment,
		} {
			lease, err := k.Acquire(t.Context(), renewer.Request{Name: "a"})
			require.NoError(t, err)
			v := l.Visit(lockA, jobs.Delivery{Queue: "q", ID: "1"}, "")
			v.Refused(errBusy, true)
			wait, _ := stand(t, v)
			assert.Equal(t, want, wait)
			_, place := v.Refused(errBusy, true)
			require.NotNil(t, place)
			assert.Equal(t, ttl, place.BackIn)
			wait, _ = stand(t, l.Visit(lockA, jobs.Delivery{Queue: "q", ID: "1"}, ""))
			assert.Zero(t, wait, "the process waits")
			f.told()
			require.NoError(t, lease.Release(t.Context()))
			assert.Equal(t, []string{"over "}, f.told(), "the process has waited for the first one")
		}
	})
}

// One that would wait for ever waits as long as it can, also after others have
// left in vain.
func TestPatienceIsBounded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, k *renewer.Keeper, l *jobs.Line) {
		f.at = contract.Arrived{Ask: true}
		for range 2 {
			lease, err := k.Acquire(t.Context(), renewer.Request{Name: "a"})
			require.NoError(t, err)
			v := l.Visit(lockA, jobs.Delivery{Queue: "q", ID: "1"}, "")
			v.Refused(errBusy, true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			wait, _ := v.Stand(ctx, math.MaxInt64)
			cancel()
			assert.Equal(t, time.Minute, wait)
			v.Refused(errBusy, true)
			require.NoError(t, lease.Release(t.Context()))
			synctest.Wait()
		}
	})
}

// A task that finds a lock free has the next one woken, also where no tasks have
// met for that: it may come from the line, and who woke it may have ended. Then
// tasks have met here.
func TestATaskFromTheLineInANewProcess(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, _ *renewer.Keeper, l *jobs.Line) {
		f.wake, f.states["2"] = []string{"2"}, []jobs.State{jobs.StateWaiting}
		v := l.Visit(lockA, jobs.Delivery{Queue: "q", ID: "1"}, "")
		stand(t, v)
		assert.Empty(t, f.told(), "it asks for the lock at once")
		v.Granted()
		v.Over()
		assert.Equal(t, []string{"granted 1", "run 2"}, f.told())
		stand(t, l.Visit(lockA, jobs.Delivery{Queue: "q", ID: "2"}, ""))
		assert.Equal(t, []string{"arrive home 2 2s"}, f.told())
	})
}

// When a task is over, the next one has been told to come, as its process may
// end then; but it waits for no server that hangs.
func TestTheEndOfATaskWaitsForItsWord(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, k *renewer.Keeper, _ *jobs.Line) {
		f.wake = []string{"2"}
		q := &hanging{fake: f, goesOn: make(chan struct{})}
		v := jobs.NewLine(k, homely{q}).Visit(lockA, jobs.Delivery{Queue: "q", ID: "1"}, "")
		stand(t, v)
		v.Granted()
		time.AfterFunc(20*time.Millisecond, func() { close(q.goesOn) })
		begun := time.Now()
		v.Over()
		assert.Equal(t, 20*time.Millisecond, time.Since(begun))

		f.wake, q.goesOn = []string{"2"}, make(chan struct{})
		v.Granted()
		begun = time.Now()
		v.Over()
		assert.Equal(t, 200*time.Millisecond, time.Since(begun))
		close(q.goesOn)
	})
}

// Of a lock that a task had for a moment it says nothing at the end: the one
// that was woken when it began waits for that. Of a limit it does, as more may
// come than were woken.
func TestTheEndOfAShortTask(t *testing.T) {
	t.Parallel()
	limit := []names.Want{{Name: "a", Limit: func() int { return 3 }}}
	for name, c := range map[string]struct {
		wants []names.Want
		runs  time.Duration
		over  []string
	}{
		"a lock, a moment": {wants: lockA, runs: 199 * time.Millisecond},
		"a lock, longer":   {lockA, 200 * time.Millisecond, []string{"over 1"}},
		"a limit":          {limit, 0, []string{"over 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, f *fake, _ *renewer.Keeper, l *jobs.Line) {
				f.at = contract.Arrived{Ask: true}
				v := l.Visit(c.wants, jobs.Delivery{Queue: "q", ID: "1"}, "")
				v.Refused(errBusy, true) // tasks have met
				stand(t, v)
				v.Granted()
				<-time.After(c.runs)
				f.told() // of all that came before
				v.Over()
				assert.Equal(t, c.over, f.told())
			})
		})
	}
}

// Each task of a long line used to come back by itself after all that stood
// before it, though those had run: when the line was lost, or all processes
// that knew of it, no task came for as long.
func TestSomeOfALongLineComeSoon(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wants []names.Want
		span  time.Duration
	}{
		"of a lock":      {lockA, 100 * time.Second},
		"of a limit":     {[]names.Want{{Name: "a", Limit: func() int { return 20 }}}, 5 * time.Second},
		"that is closed": {[]names.Want{{Name: "a", Limit: func() int { return 0 }}}, 100 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, f *fake, _ *renewer.Keeper, l *jobs.Line) {
				f.at = contract.Arrived{Ahead: 1000}
				first, last := time.Hour, time.Duration(0)
				for range 200 {
					v := l.Visit(c.wants, jobs.Delivery{Queue: "q", ID: "1"}, "")
					v.Refused(errBusy, true)
					_, place := stand(t, v)
					require.NotNil(t, place)
					first, last = min(first, place.BackIn), max(last, place.BackIn)
				}
				assert.GreaterOrEqual(t, first, ttl)
				assert.Less(t, first, ttl+c.span/10)
				assert.Greater(t, last, ttl+c.span*9/10)
				assert.LessOrEqual(t, last, ttl+c.span)
			})
		})
	}
}
