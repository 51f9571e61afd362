package cronmw_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const minute = time.Minute

// start is when a bubble begins.
var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// fleet is nodes in a bubble, which have a job called "job", and the store's
// clock is the bubble's.
type fleet struct {
	renewer.NopObserver
	t     *testing.T
	store *memory.Store
	ahead atomic.Int64 // of the store's clock
	nodes []*machine
	calls sync.WaitGroup // of schedulers

	mu       sync.Mutex
	begun    map[int64][]time.Time // of each tick, when runs have begun
	told     []renewer.Run
	added    renewer.Run // a job, last
	granted  int         // locks
	standsBy int         // for locks
}

// inFleet runs f in a bubble.
func inFleet(t *testing.T, f func(t *testing.T, f *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, &fleet{t: t, store: memory.New(), begun: make(map[int64][]time.Time)})
	})
}

// Ran implements [renewer.Observer].
func (f *fleet) Ran(_ context.Context, t renewer.Run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t.Outcome == renewer.OutcomeAdded {
		f.added = t
		return
	}
	f.told = append(f.told, t)
}

// AcquireEnd implements [renewer.Observer].
func (f *fleet) AcquireEnd(ctx context.Context, e renewer.AcquireEnd) context.Context {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case e.StandBy:
		f.standsBy++
	case e.Err == nil:
		f.granted++
	}
	return ctx
}

// all are the ticks that were told.
func (f *fleet) all() []renewer.Run {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.told)
}

// last is the one told last.
func (f *fleet) last() renewer.Run { return f.all()[len(f.all())-1] }

// count counts those with an outcome.
func (f *fleet) count(o renewer.Outcome) (n int) {
	for _, t := range f.all() {
		if t.Outcome == o {
			n++
		}
	}
	return n
}

// missed are the counts of missed ticks that were told, but for 0.
func (f *fleet) missed() (all []int) {
	for _, t := range f.all() {
		if t.Missed > 0 {
			all = append(all, t.Missed)
		}
	}
	return all
}

// begins are when runs of a tick have begun.
func (f *fleet) begins(due time.Time) []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.begun[due.UnixNano()])
}

// lateness is how late a tick was begun, which must have been once.
func (f *fleet) lateness(t *testing.T, due time.Time) time.Duration {
	t.Helper()
	begun := f.begins(due)
	require.Len(t, begun, 1, "the runs of %v", due)
	return begun[0].Sub(due)
}

// storesNow is the time by the store's clock.
func (f *fleet) storesNow() time.Time { return time.Now().Add(time.Duration(f.ahead.Load())) }

// away cuts all nodes off the store, or no longer.
func (f *fleet) away(cut bool) {
	for _, m := range f.nodes {
		m.cut.Store(cut)
	}
}

// machine is a node, and its link to the store.
type machine struct {
	engine.Whole
	*cronmw.Node

	fleet  *fleet
	keeper *renewer.Keeper
	ahead  time.Duration // of its clock, by which its scheduler calls
	cut    atomic.Bool
	gone   atomic.Bool  // the next heartbeat hears that its lease is gone
	slow   atomic.Int64 // how long the answer to Prepare takes
	asked  atomic.Int64 // how often it has read a record
	ctx    context.Context
	stop   context.CancelFunc
}

// add adds a node whose clock is ahead by so much.
func (f *fleet) add(ahead time.Duration) *machine {
	f.t.Helper()
	m := &machine{Whole: engine.In(f.store), fleet: f, ahead: ahead}
	m.ctx, m.stop = context.WithCancel(f.t.Context())
	var err error
	m.keeper, err = renewer.New(m, renewer.Config{
		TTL: renewer.DefaultTTL, Node: fmt.Sprint("node-", len(f.nodes)+1), ProfileLabels: true,
		Observer: f,
	})
	require.NoError(f.t, err)
	m.Node, err = cronmw.New(m.ctx, m.keeper)
	require.NoError(f.t, err)
	f.nodes = append(f.nodes, m)
	f.t.Cleanup(func() {
		m.cut.Store(false)
		m.stop()
		f.calls.Wait()
		require.NoError(f.t, m.keeper.Shutdown(context.WithoutCancel(f.t.Context())))
		synctest.Wait()
	})
	return m
}

// job adds one called "job" that notes its runs and then does fn.
func (m *machine) job(
	s cronmw.Schedule, fn func(context.Context) error, opts ...cronmw.Option,
) *cronmw.Job {
	m.fleet.t.Helper()
	j, err := m.Job("job", s, m.fleet.noted(fn), opts...)
	require.NoError(m.fleet.t, err)
	return j
}

func (f *fleet) noted(fn func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		due := cronmw.Current(ctx).Due.UnixNano()
		f.mu.Lock()
		f.begun[due] = append(f.begun[due], time.Now())
		f.mu.Unlock()
		return fn(ctx)
	}
}

// runs adds the job, and has a scheduler call it on each tick by the node's
// clock.
func (m *machine) runs(
	s cronmw.Schedule, fn func(context.Context) error, opts ...cronmw.Option,
) {
	m.fleet.t.Helper()
	m.calls(s, m.job(s, fn, opts...).Run)
}

// calls is a scheduler: it does so on each tick by the node's clock, until the
// node stops.
func (m *machine) calls(s cronmw.Schedule, call func()) {
	m.fleet.calls.Go(func() {
		var calls sync.WaitGroup
		defer calls.Wait()
		for {
			next := s.Next(time.Now().Add(m.ahead)).Add(-m.ahead)
			select {
			case <-time.After(time.Until(next)):
				calls.Go(call)
			case <-m.ctx.Done():
				return
			}
		}
	})
}

// die cuts the node off for good, as if its process had ended: it does nothing
// any more that others could see.
func (m *machine) die() {
	m.cut.Store(true)
	m.stop()
}

func nothing(context.Context) error { return nil }

// takes is a job's function that takes so long.
func takes(d time.Duration) func(context.Context) error {
	return func(context.Context) error { elapse(d); return nil }
}

// untilCut is a job's function that goes on until its context ends.
func untilCut(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// elapse lets a time pass, by the clock of the bubble.
func elapse(d time.Duration) { <-time.After(d) }

// once is a schedule with one tick.
type once time.Time

func (o once) Next(t time.Time) time.Time {
	if at := time.Time(o); t.Before(at) {
		return at
	}
	return time.Time{}
}

// uneven has ticks at these times of each hour.
type uneven []time.Duration

func (u uneven) Next(t time.Time) time.Time {
	for hour := t.Truncate(time.Hour); ; hour = hour.Add(time.Hour) {
		for _, d := range u {
			if at := hour.Add(d); at.After(t) {
				return at
			}
		}
	}
}

var errCut = errors.New("connection refused")

// linked asks the store, unless the node is cut off from it: then each answer is
// down.
func linked[Q, A any](
	ctx context.Context, m *machine, ask func(context.Context, []Q) []A, all []Q, down A,
) []A {
	if m.cut.Load() {
		return slices.Repeat([]A{down}, len(all))
	}
	return ask(ctx, all)
}

func (m *machine) Engine() contract.Store { return m }

func (m *machine) Acquire(ctx context.Context, claims []contract.Claim) []contract.Grant {
	return linked(ctx, m, m.Whole.Acquire, claims, contract.Grant{Err: errCut})
}

func (m *machine) Renew(ctx context.Context, holds []contract.Hold) []contract.Answer {
	if !m.cut.Load() && m.gone.Swap(false) {
		return slices.Repeat([]contract.Answer{{Status: contract.StatusGone}}, len(holds))
	}
	return linked(ctx, m, m.Whole.Renew, holds, contract.Answer{Err: errCut})
}

func (m *machine) Release(ctx context.Context, holds []contract.Hold) []contract.Answer {
	return linked(ctx, m, m.Whole.Release, holds, contract.Answer{Err: errCut})
}

func (m *machine) Prepare(ctx context.Context, terms []contract.Term) []contract.Seen {
	elapse(time.Duration(m.slow.Load()))
	return m.fleet.shift(linked(ctx, m, m.Whole.Prepare, terms, contract.Seen{Err: errCut}))
}

func (m *machine) Read(ctx context.Context, names []string) []contract.Seen {
	m.asked.Add(1)
	return m.fleet.shift(linked(ctx, m, m.Whole.Read, names, contract.Seen{Err: errCut}))
}

func (m *machine) Write(ctx context.Context, records []contract.Record) []contract.Answer {
	return linked(ctx, m, m.Whole.Write, records, contract.Answer{Err: errCut})
}

// shift puts the store's clock ahead.
func (f *fleet) shift(all []contract.Seen) []contract.Seen {
	for i := range all {
		all[i].Now = all[i].Now.Add(time.Duration(f.ahead.Load()))
	}
	return all
}
