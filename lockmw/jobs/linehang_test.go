package jobs_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// hanging is a queue that does not answer until it goes on.
type hanging struct {
	*fake

	goesOn        chan struct{}
	homes, states atomic.Int64 // questions
	bounded       atomic.Bool  // Home was told by when to return
}

func (q *hanging) Home(ctx context.Context, task jobs.Task) (string, error) {
	_, bounded := ctx.Deadline()
	q.bounded.Store(bounded)
	q.homes.Add(1)
	<-q.goesOn
	return q.fake.Home(ctx, task)
}

func (q *hanging) State(string, jobs.Task) (jobs.State, error) {
	q.states.Add(1)
	<-q.goesOn
	return jobs.StateComing, nil
}

// Tasks wait once for a queue that does not say what it is called, and stand in
// line when it has.
func TestHomeHangs(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, k *renewer.Keeper, _ *jobs.Line) {
		f.at = contract.Arrived{Ahead: 1}
		q := &hanging{fake: f, goesOn: make(chan struct{})}
		l := jobs.NewLine(k, q)
		begun := time.Now()
		for range 3 {
			v := l.Visit(lockA, jobs.Delivery{Queue: "q", ID: "1"}, "")
			v.Refused(errBusy, true)
			_, place := stand(t, v)
			assert.Nil(t, place)
			assert.Equal(t, k.Config().RequestTimeout, time.Since(begun))
		}
		assert.EqualValues(t, 1, q.homes.Load())
		assert.True(t, q.bounded.Load())
		close(q.goesOn)
		f.told()
		v := l.Visit(lockA, jobs.Delivery{Queue: "q", ID: "1"}, "")
		v.Refused(errBusy, true)
		_, place := stand(t, v)
		assert.NotNil(t, place)
		assert.EqualValues(t, 1, q.homes.Load())
	})
}

// always is a store in whose line a task is always to be woken.
type always struct{ *fake }

func (s always) Engine() store.Store { return s }

func (always) Next(
	context.Context, contract.Name, int, contract.TaskEvent, contract.Task,
) (contract.NextTask, error) {
	return contract.NextTask{Parked: 1, Tasks: []contract.Task{{ID: "next"}}}, nil
}

// However often a process looks at lines meanwhile, 64 goroutines wait for a
// queue that hangs.
func TestStateHangs(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, _ *renewer.Keeper, _ *jobs.Line) {
		f.at = contract.Arrived{Ahead: 1}
		k, err := renewer.New(always{f}, renewer.Config{TTL: ttl})
		require.NoError(t, err)
		q := &hanging{fake: f, goesOn: make(chan struct{})}
		l := jobs.NewLine(k, homely{q})
		for range 100 {
			v := l.Visit(lockA, jobs.Delivery{Queue: "q", ID: "1"}, "")
			v.Refused(errBusy, true)
			_, place := stand(t, v)
			assert.NotNil(t, place)
			<-time.After(time.Second)
		}
		assert.EqualValues(t, 64, q.states.Load())
		require.NoError(t, k.Shutdown(t.Context()))
		close(q.goesOn)
	})
}

// homely is a hanging queue that says what it is called.
type homely struct{ *hanging }

func (q homely) Home(ctx context.Context, task jobs.Task) (string, error) {
	return q.fake.Home(ctx, task)
}

// A user's limit that panics where the line asks for it does not end the
// process: an observer is told.
func TestLimitPanics(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, _ *renewer.Keeper, l *jobs.Line) {
		var panics atomic.Bool
		limit := []names.Want{{Name: "a", Limit: func() int {
			if panics.Load() {
				panic("no such tenant")
			}
			return 3
		}}}
		v := l.Visit(limit, jobs.Delivery{Queue: "q", ID: "1"}, "")
		stand(t, v)
		v.Refused(errBusy, true) // tasks have met
		panics.Store(true)
		v.Granted()
		v.Over()
		assert.ElementsMatch(t, []string{"granted 1", "over 1"}, f.told())
		assert.ErrorContains(t, f.parked.fault.Load().(error), "no such tenant")
	})
}

// A home that could not stand in a key is told to the observer, and no task
// stands in line.
func TestHomeOfOtherThanLettersAndDigits(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, _ *renewer.Keeper, l *jobs.Line) {
		f.at, f.home = contract.Arrived{Ahead: 1}, "my:database"
		v := l.Visit(lockA, jobs.Delivery{Queue: "q", ID: "1"}, "")
		v.Refused(errBusy, true)
		_, place := stand(t, v)
		assert.Nil(t, place)
		assert.Empty(t, f.told())
		err, _ := f.parked.fault.Load().(error)
		require.ErrorIs(t, err, renewer.ErrConfig)
		assert.ErrorContains(t, err, `"my:database"`)
	})
}

// A task whose queue and ID the store could not tell apart, or would not read,
// has no line.
func TestTasksThatNoLineTakes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, _ *renewer.Keeper, l *jobs.Line) {
		f.at = contract.Arrived{Ahead: 1}
		for _, of := range []jobs.Delivery{
			{Queue: "q\nr", ID: "1"}, {Queue: "q", ID: string(make([]byte, 4000))},
		} {
			v := l.Visit(lockA, of, "")
			v.Refused(errBusy, true)
			_, place := stand(t, v)
			assert.Nil(t, place)
			assert.Empty(t, f.told())
		}
	})
}

// Where the line can't be told that a task has the lock, the process looks at
// it later, as nothing else may wake the next one. Where it may not be, the
// observer is told.
func TestALineThatTakesNoWord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		told []string // a while later
	}{
		"no answer": {renewer.ErrUnavailable, []string{"look "}},
		"no rights": {renewer.ErrRejected, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, f *fake, _ *renewer.Keeper, l *jobs.Line) {
				f.silent = c.err
				v := l.Visit(lockA, jobs.Delivery{Queue: "q", ID: "1"}, "")
				stand(t, v)
				v.Granted()
				v.Over()
				assert.Equal(t, []string{"granted 1"}, f.told())
				f.mu.Lock()
				f.silent = nil
				f.mu.Unlock()
				<-time.After(200 * time.Millisecond)
				assert.Equal(t, c.told, f.told())
				err, _ := f.parked.fault.Load().(error)
				assert.Equal(t, c.told == nil, errors.Is(err, renewer.ErrRejected))
			})
		})
	}
}

// A task that can't ask a line, of one lock or of several, is as one without.
func TestALineThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	three := func() int { return 3 }
	for _, wants := range [][]names.Want{lockA, {{Name: "a", Limit: three}, {Name: "b", Limit: three}}} {
		inBubble(t, func(t *testing.T, f *fake, _ *renewer.Keeper, l *jobs.Line) {
			f.deaf = renewer.ErrUnavailable
			busy := &renewer.Error{Kind: renewer.ErrBusy, Name: "a"}
			if len(wants) > 1 {
				busy.Limit = 3
			}
			v := l.Visit(wants, jobs.Delivery{Queue: "q", ID: "1"}, "")
			again, _ := v.Refused(busy, true)
			require.True(t, again)
			wait, place := stand(t, v)
			assert.Zero(t, wait)
			assert.Nil(t, place)
			again, place = v.Refused(busy, true)
			assert.False(t, again)
			assert.Nil(t, place)
		})
	}
}

// A task whose turn has come, and that could not ask for the lock then, leaves
// the line: the next one is called.
func TestATurnWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, _ *renewer.Keeper, l *jobs.Line) {
		f.at.Ask = true
		v := l.Visit(lockA, jobs.Delivery{Queue: "q", ID: "1"}, "")
		v.Refused(errBusy, true)
		stand(t, v)
		f.told()
		again, place := v.Refused(renewer.ErrUnavailable, false)
		assert.False(t, again)
		assert.Nil(t, place)
		assert.Equal(t, []string{"left 1"}, f.told())
	})
}

// What becomes of tasks is said after Shutdown too, but nobody looks at the
// line any more. Their queue may be closed by then: the observer hears of it
// only if it fails before.
func TestAfterShutdown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, k *renewer.Keeper, l *jobs.Line) {
		f.at = contract.Arrived{Ahead: 1}
		v := l.Visit(lockA, jobs.Delivery{Queue: "q", ID: "1"}, "")
		v.Refused(errBusy, true)
		stand(t, v)
		f.told()
		f.states["2"], f.fails = []jobs.State{jobs.StateGone}, errors.New("closed pool")
		require.NoError(t, k.Shutdown(t.Context()))
		f.wake = []string{"2"}
		v.Copied(false)
		<-time.After(time.Minute)
		assert.Equal(t, []string{"gone 1"}, f.told())
		assert.Nil(t, f.parked.fault.Load())
	})
}
