package jobs_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
)

const (
	ttl    = 15 * time.Second
	moment = time.Second
)

var errBusy = errors.New("busy")

// lockA is what a task wants that wants one lock.
var lockA = []names.Want{{Name: "a"}}

// fake is a store with a line, and the queue of its tasks.
type fake struct {
	engine.Whole

	mu     sync.Mutex
	at     contract.Arrived                   // the answer to those who come
	ats    map[contract.Name]contract.Arrived // the answers in the lines of some names, instead
	wake   []string                           // who is woken next
	late   []string                           // who has not come, if none is woken
	states map[string][]jobs.State            // what tasks do, one after the other
	fails  error                              // of the queue
	deaf   error                              // of the line, to those who come
	silent error                              // of the line, when it is told something
	home   string                             // what it is called, if that is no "home"
	heard  []string                           // what the line and the queue were told
	parked parked                             // of the keeper
}

// parked counts the tasks in line, as an observer does.
type parked struct {
	renewer.NopObserver
	atomic.Int64

	fault atomic.Value // an error

	standBys atomic.Int64
}

func (p *parked) AcquireStart(ctx context.Context, e renewer.AcquireStart) context.Context {
	if e.StandBy {
		p.standBys.Add(1)
	}
	return ctx
}

// Fault implements [renewer.Observer].
func (p *parked) Fault(e renewer.Fault) { p.fault.Store(e.Err) }

func (p *parked) TasksInLine(e renewer.TasksInLine) { p.Add(int64(e.Change)) }

func (f *fake) Engine() store.Store { return f }

func (f *fake) tell(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = append(f.heard, what)
}

// told returns what was told since the last call, once all is quiet.
func (f *fake) told() []string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	heard := f.heard
	f.heard = nil
	return heard
}

func (f *fake) Arrive(ctx context.Context, a contract.Arrival) (contract.Arrived, error) {
	if f.deaf != nil {
		return contract.Arrived{}, f.deaf
	}
	at, several := f.ats[a.Name]
	if !several {
		at = f.at
	}
	if a.Look {
		f.tell("look in " + a.Name.Text)
		return contract.Arrived{Ask: true, Since: at.Since}, nil
	}
	text := a.Task.Home + " " + a.Task.ID
	if several {
		text = fmt.Sprintf("%s, most %d, since %d", a.Name.Text, a.Limit, a.Since)
	}
	if a.For.ID != "" {
		text += " for " + a.For.ID
	}
	f.tell("arrive " + text + " " + a.SlotTTL.String())
	deadline, _ := ctx.Deadline()
	if time.Until(deadline) > ttl/3 {
		return contract.Arrived{}, errors.New("no bound")
	}
	at.Wait = at.Ask && a.Wait
	return at, nil
}

func (f *fake) Next(
	_ context.Context, name contract.Name, _ int, what contract.TaskEvent, task contract.Task,
) (contract.NextTask, error) {
	text := what.String() + " " + task.ID
	if f.ats != nil {
		text = what.String() + " in " + name.Text
	}
	f.tell(text)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.silent != nil {
		return contract.NextTask{}, f.silent
	}
	next := contract.NextTask{Parked: len(f.wake) + len(f.late)}
	if len(f.wake) > 0 {
		next.Tasks = []contract.Task{{ID: f.wake[0]}}
		f.wake = f.wake[1:]
		return next, nil
	}
	for _, id := range f.late {
		next.Late = append(next.Late, contract.Task{ID: id})
	}
	f.late = nil
	return next, nil
}

func (f *fake) Home(context.Context, jobs.Task) (string, error) {
	return cmp.Or(f.home, "home"), f.fails
}

func (f *fake) State(_ string, task jobs.Task) (jobs.State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	states := f.states[task.ID]
	if len(states) > 1 {
		f.states[task.ID] = states[1:]
	}
	return states[0], f.fails
}

func (f *fake) Run(task jobs.Task) error {
	f.tell("run " + task.ID)
	return nil
}

// inBubble runs a test in a bubble, with a line on a fake.
func inBubble(t *testing.T, test func(t *testing.T, f *fake, k *renewer.Keeper, l *jobs.Line)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{Whole: engine.In(memory.New()), states: make(map[string][]jobs.State)}
		k, err := renewer.New(f, renewer.Config{TTL: ttl, Observer: &f.parked, Log: renewer.Silent})
		require.NoError(t, err)
		test(t, f, k, jobs.NewLine(k, f))
		require.NoError(t, k.Shutdown(context.Background()))
		<-time.After(time.Minute) // until no look is due any more
	})
}

// stand lets a task stand that can wait for a minute.
func stand(t *testing.T, v *jobs.Visit) (time.Duration, *jobs.Place) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return v.Stand(ctx, moment)
}

func TestTheWayOfATask(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, _ *renewer.Keeper, l *jobs.Line) {
		first := l.Visit(lockA, jobs.Delivery{Queue: "q", ID: "1"}, "")
		wait, place := stand(t, first)
		assert.Nil(t, place)
		assert.Zero(t, wait)
		assert.Empty(t, f.told(), "no tasks have met: the line is not asked")

		again, place := first.Refused(errBusy, true)
		assert.True(t, again)
		assert.Nil(t, place)
		f.at = contract.Arrived{Ask: true}
		wait, place = stand(t, first)
		assert.Nil(t, place)
		assert.Equal(t, moment, wait)
		assert.Equal(t, []string{"arrive home 1 2s"}, f.told())
		first.Granted()
		assert.Equal(t, []string{"granted 1"}, f.told())
		<-time.After(200 * time.Millisecond)
		f.told() // the line was looked at
		first.Over()
		assert.Equal(t, []string{"over 1"}, f.told())

		f.at = contract.Arrived{Ahead: 3}
		last := l.Visit(lockA, jobs.Delivery{Queue: "q", ID: "2"}, "2b")
		_, place = stand(t, last)
		require.NotNil(t, place)
		assert.GreaterOrEqual(t, place.BackIn, ttl)
		assert.LessOrEqual(t, place.BackIn, ttl+300*time.Millisecond)
		require.ErrorIs(t, place.Err, renewer.ErrBusy)
		require.ErrorContains(t, place.Err, "3 before it in line")
		last.Copied(true)
		last.Copied(false)
		told := f.told()
		assert.Equal(t, "arrive home 2b for 2 2s", told[0])
		assert.ElementsMatch(t, []string{"left 2b", "gone 2b"}, told[1:])
	})
}

func TestWaking(t *testing.T) {
	t.Parallel()
	type states = []jobs.State
	errAway := errors.New("away")
	for name, c := range map[string]struct {
		states states // of 2
		late   bool   // 2 was woken before
		fails  error
		told   []string
	}{
		"waits": {states: states{jobs.StateWaiting}, told: []string{"run 2"}},
		"comes": {states: states{jobs.StateComing}},
		"is put back": {
			states: states{jobs.StateRunning, jobs.StateRunning, jobs.StateWaiting},
			told:   []string{"run 2"},
		},
		"gone":            {states: states{jobs.StateGone}, told: []string{"missing 2"}},
		"late":            {states: states{jobs.StateWaiting}, late: true},
		"late, gone":      {states: states{jobs.StateGone}, late: true, told: []string{"missing 2"}},
		"no answer":       {states: states{jobs.StateGone}, fails: errAway},
		"late, no answer": {states: states{jobs.StateGone}, late: true, fails: errAway},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, f *fake, _ *renewer.Keeper, l *jobs.Line) {
				v := l.Visit(lockA, jobs.Delivery{Queue: "q", ID: "1"}, "")
				stand(t, v)
				v.Refused(errBusy, true) // tasks have met
				f.states["2"], f.fails = c.states, c.fails
				if c.late {
					f.late = []string{"2"}
				} else {
					f.wake = []string{"2"}
				}
				v.Granted()
				v.Over()
				<-time.After(100 * time.Millisecond) // the line is looked at later
				assert.Equal(t, append([]string{"granted 1"}, c.told...), f.told())
				assert.Equal(t, c.fails != nil && !c.late, f.parked.fault.Load() != nil)
			})
		})
	}
}

// Where nobody says that a lock is free, the process looks at the line, less
// and less often, until none stands there.
func TestLooks(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, _ *renewer.Keeper, l *jobs.Line) {
		f.at = contract.Arrived{Ahead: 1}
		v := l.Visit(lockA, jobs.Delivery{Queue: "q", ID: "1"}, "")
		v.Refused(errBusy, true)
		stand(t, v)
		f.told()
		f.states["2"] = []jobs.State{jobs.StateWaiting}
		for _, pause := range []time.Duration{
			200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond,
		} {
			f.late = []string{"2"}
			<-time.After(pause - 1)
			assert.Empty(t, f.told())
			<-time.After(1)
			assert.Equal(t, []string{"look "}, f.told())
		}
		<-time.After(time.Minute)
		assert.Equal(t, []string{"look "}, f.told())
	})
}

// An observer hears how many tasks stand in line, also from a process that only
// saw them there: it looks again, until none does.
func TestTasksInLineAreCounted(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, _ *renewer.Keeper, l *jobs.Line) {
		v := l.Visit(lockA, jobs.Delivery{Queue: "q", ID: "1"}, "")
		stand(t, v)
		v.Refused(errBusy, true) // tasks have met
		f.states["2"], f.states["3"] = []jobs.State{jobs.StateWaiting}, []jobs.State{jobs.StateWaiting}
		f.late = []string{"2", "3"}
		v.Granted()
		v.Over()
		assert.Equal(t, []string{"granted 1"}, f.told())
		assert.EqualValues(t, 2, f.parked.Load())
		for _, n := range []int{2, 1, 0} {
			f.late = []string{"2", "3"}[:n]
			<-time.After(10*time.Second - 1)
			assert.Empty(t, f.told())
			<-time.After(1)
			assert.Equal(t, []string{"look "}, f.told())
			assert.EqualValues(t, n, f.parked.Load())
		}
		<-time.After(time.Minute)
		assert.Empty(t, f.told())
	})
}

// The process that waits in the place of the first task waits as the operation
// that people know, and is no caller who is granted a lock.
func TestTheProcessWaitsAsTheTask(t *testing.T) {
	t.Parallel()
	for _, limit := range []func() int{nil, func() int { return 1 }} {
		inBubble(t, func(t *testing.T, f *fake, k *renewer.Keeper, l *jobs.Line) {
			held, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: limit})
			require.NoError(t, err)
			v := l.Visit([]names.Want{{Name: "a", Limit: limit}},
				jobs.Delivery{Kind: "fulfil", Queue: "q", ID: "1"}, "")
			stand(t, v)
			v.Refused(errBusy, true)
			_, place := v.Stand(t.Context(), 0)
			require.NotNil(t, place)
			synctest.Wait()
			waiting := slices.Collect(k.Waiting())
			require.Len(t, waiting, 1)
			assert.Equal(t, "fulfil", waiting[0].Operation)
			require.NoError(t, held.Release(t.Context()))
			synctest.Wait()
			assert.EqualValues(t, 1, f.parked.standBys.Load())
		})
	}
}

// A task has no line if its keeper's store keeps none, or its queue is another
// one, or none has it.
func TestTasksWithoutALine(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, _ *renewer.Keeper, l *jobs.Line) {
		k, err := renewer.New(memory.New(), renewer.Config{TTL: ttl})
		require.NoError(t, err)
		f.at = contract.Arrived{Ahead: 1}
		of := jobs.Delivery{Queue: "q", ID: "1"}
		hasNone := func(v *jobs.Visit) {
			v.Refused(errBusy, true)
			wait, place := stand(t, v)
			assert.Zero(t, wait)
			assert.Nil(t, place)
			v.Granted()
			v.Over()
		}
		hasNone(jobs.NewLine(k, f).Visit(lockA, of, ""))
		hasNone(l.Visit(lockA, jobs.Delivery{}, ""))
		f.fails = errors.New("it does not have that task")
		hasNone(l.Visit(lockA, of, ""))
		assert.Empty(t, f.told())
		require.NoError(t, k.Shutdown(t.Context()))
	})
}

// A task that wants several stands in the line of the one that refused it, and
// when its turn has come there, in that of the next, with a place that is as
// old. It keeps none in the one before.
func TestSeveralLines(t *testing.T) {
	t.Parallel()
	two := []names.Want{
		{Name: "tenant", Limit: func() int { return 3 }}, {Name: "all", Limit: func() int { return 20 }},
	}
	full := func(name string) error {
		return &renewer.Error{Kind: renewer.ErrBusy, Name: name, Limit: 3}
	}
	of := jobs.Delivery{Queue: "q", ID: "1"}
	inBubble(t, func(t *testing.T, f *fake, _ *renewer.Keeper, l *jobs.Line) {
		in := func(tenant, all contract.Arrived) {
			f.ats = map[contract.Name]contract.Arrived{
				{Text: "tenant", Limit: true}: tenant, {Text: "all", Limit: true}: all,
			}
		}
		turn := contract.Arrived{Ask: true}
		t.Log("the wider one is full: it stands there, and in no other line")
		in(turn, contract.Arrived{Ahead: 2, Held: 20})
		v := l.Visit(two, of, "")
		stand(t, v)
		assert.Empty(t, f.told())
		v.Refused(full("all"), true)
		_, place := stand(t, v)
		require.NotNil(t, place)
		assert.ErrorContains(t, place.Err, `"all": at its limit of 20, 20 held: 2 before it in line`)
		assert.Equal(t, []string{"arrive all, most 20, since 0 2s"}, f.told())

		t.Log("a newcomer that the other one refuses: its turn has come there, and not in the wider")
		v = l.Visit(two, of, "")
		v.Refused(full("tenant"), true)
		_, place = stand(t, v)
		require.NotNil(t, place)
		assert.Equal(t, []string{
			"look in all", "arrive tenant, most 3, since 0 2s",
			"arrive all, most 20, since 0 2s", "moved in tenant",
		}, f.told())

		t.Log("it comes from the wider one's line: its place in the other is as old")
		in(contract.Arrived{Ahead: 1, Since: 7}, contract.Arrived{Ask: true, Since: 7})
		v = l.Visit(two, of, "")
		_, place = stand(t, v)
		require.NotNil(t, place)
		assert.Equal(t, []string{
			"look in all", "arrive tenant, most 3, since 7 2s", "moved in all",
		}, f.told())

		t.Log("it asks again: it is known where it stands")
		in(contract.Arrived{Ask: true, Since: 7}, contract.Arrived{Ask: true, Since: 7})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		v = l.Visit(two, of, "")
		v.Stand(ctx, 0)
		f.told()
		again, _ := v.Refused(full("all"), true)
		assert.True(t, again)
		v.Stand(ctx, 0)
		assert.Equal(t, []string{
			"arrive tenant, most 3, since 7 1s", "arrive all, most 20, since 7 1s",
		}, f.told())

		t.Log("its turn has come in both")
		in(turn, turn)
		v = l.Visit(two, of, "")
		wait, place := stand(t, v)
		assert.Nil(t, place)
		assert.Equal(t, moment, wait)
		f.told()
		v.Granted()
		assert.ElementsMatch(t, []string{"granted in tenant", "granted in all"}, f.told())
		v.Over()
		assert.ElementsMatch(t, []string{"over in tenant", "over in all"}, f.told())
	})
}
