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

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// start is when a bubble begins.
var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// fleet is nodes with clocks of their own, in a bubble, and the store's clock is the bubble's.
type fleet struct {
	t     *testing.T
	store *memory.Store
	ahead atomic.Int64 // of the store's clock
	log   *log
	nodes []*machine
	runs  sync.WaitGroup

	mu    sync.Mutex
	begun map[int64][]time.Time // of each tick, when runs have begun
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	return &fleet{t: t, store: memory.New(), log: new(log), begun: make(map[int64][]time.Time)}
}

// inFleet runs f in a bubble.
func inFleet(t *testing.T, f func(t *testing.T, f *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newFleet(t)) })
}

// machine is a node, and its link to the store.
type machine struct {
	*memory.Store

	fleet *fleet
	node  *cronmw.Node
	ahead time.Duration
	cut   atomic.Bool
	gone  atomic.Bool  // the next heartbeat hears that its lease is gone
	asked atomic.Int64 // how often it has read a record
	stop  context.CancelFunc
	ctx   context.Context
}

var errCut = errors.New("connection refused")

// add adds a node whose clock is ahead by so much.
func (f *fleet) add(ahead time.Duration) *machine {
	f.t.Helper()
	m := &machine{Store: f.store, fleet: f, ahead: ahead}
	m.ctx, m.stop = context.WithCancel(f.t.Context())
	k, err := renewer.New(m, renewer.Config{
		TTL: renewer.DefaultTTL, Node: fmt.Sprint("node-", len(f.nodes)+1),
	})
	require.NoError(f.t, err)
	m.node, err = cronmw.New(m.ctx, k, cronmw.Config{OnTick: f.log.add})
	require.NoError(f.t, err)
	m.node.SetClock(m.now)
	f.nodes = append(f.nodes, m)
	f.t.Cleanup(func() {
		m.cut.Store(false)
		m.stop()
		f.runs.Wait()
		require.NoError(f.t, k.Shutdown(context.WithoutCancel(f.t.Context())))
		synctest.Wait()
	})
	return m
}

// now is the time by the node's clock.
func (m *machine) now() time.Time { return time.Now().Add(m.ahead) }

// job adds one called "job" that notes its runs and then does fn.
func (m *machine) job(
	s cronmw.Schedule, fn func(context.Context) error, opts ...cronmw.Option,
) *cronmw.Job {
	m.fleet.t.Helper()
	j, err := m.node.Job("job", s, m.noted(fn), opts...)
	require.NoError(m.fleet.t, err)
	return j
}

// inCron adds the same to a cron.
func (m *machine) inCron(
	c *cron.Cron, s cronmw.Schedule, fn func(context.Context) error, opts ...cronmw.Option,
) {
	m.fleet.t.Helper()
	_, err := m.node.Schedule(c, s, "job", m.noted(fn), opts...)
	require.NoError(m.fleet.t, err)
}

func (m *machine) noted(fn func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		f, due := m.fleet, cronmw.Current(ctx).Due.UnixNano()
		f.mu.Lock()
		f.begun[due] = append(f.begun[due], time.Now())
		f.mu.Unlock()
		return fn(ctx)
	}
}

// schedules has a scheduler that goes by the node's clock call on each tick, late by so much.
func (m *machine) schedules(s cronmw.Schedule, j *cronmw.Job, late func() time.Duration) {
	m.schedulesJob(s, func() {
		elapse(late())
		j.Run()
	})
}

func (m *machine) schedulesJob(s cronmw.Schedule, run func()) {
	m.fleet.runs.Go(func() { ticker(m.ctx, skewed{s, m.ahead}, run) })
}

func inTime() time.Duration { return 0 }

// die cuts the node off for good, as if its process had ended: it does nothing any more that
// others could see.
func (m *machine) die() {
	m.cut.Store(true)
	m.stop()
}

// storesNow is the time by the store's clock.
func (f *fleet) storesNow() time.Time { return time.Now().Add(time.Duration(f.ahead.Load())) }

// begins are when runs of a tick have begun.
func (f *fleet) begins(due time.Time) []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.begun[due.UnixNano()])
}

// history is that of "job".
func (f *fleet) history() cronmw.Last {
	f.t.Helper()
	k, err := renewer.New(f.store, renewer.Config{TTL: renewer.DefaultTTL})
	require.NoError(f.t, err)
	last, err := cronmw.History(f.t.Context(), k, "job")
	require.NoError(f.t, err)
	require.NoError(f.t, k.Shutdown(f.t.Context()))
	return last
}

// lateness is how late a tick was begun, which must have been once.
func (f *fleet) lateness(t *testing.T, due time.Time) time.Duration {
	t.Helper()
	begun := f.begins(due)
	require.Len(t, begun, 1, "the runs of %v", due)
	return begun[0].Sub(due)
}

// down answers in place of a store that can't be reached.
func down[T any](n int, answer T) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = answer
	}
	return all
}

func (m *machine) Acquire(ctx context.Context, claims []renewer.Claim) []renewer.Grant {
	if m.cut.Load() {
		return down(len(claims), renewer.Grant{Err: errCut})
	}
	return m.Store.Acquire(ctx, claims)
}

func (m *machine) Renew(ctx context.Context, holds []renewer.Hold) []renewer.Answer {
	if m.cut.Load() {
		return down(len(holds), renewer.Answer{Err: errCut})
	}
	if m.gone.Swap(false) {
		return down(len(holds), renewer.Answer{Status: renewer.StatusGone})
	}
	return m.Store.Renew(ctx, holds)
}

func (m *machine) Release(ctx context.Context, holds []renewer.Hold) []renewer.Answer {
	if m.cut.Load() {
		return down(len(holds), renewer.Answer{Err: errCut})
	}
	return m.Store.Release(ctx, holds)
}

func (m *machine) Prepare(ctx context.Context, terms []renewer.Term) []renewer.Seen {
	if m.cut.Load() {
		return down(len(terms), renewer.Seen{Err: errCut})
	}
	return m.fleet.shift(m.Store.Prepare(ctx, terms))
}

func (m *machine) Read(ctx context.Context, names []string) []renewer.Seen {
	m.asked.Add(1)
	if m.cut.Load() {
		return down(len(names), renewer.Seen{Err: errCut})
	}
	return m.fleet.shift(m.Store.Read(ctx, names))
}

func (m *machine) Write(ctx context.Context, records []renewer.Record) []renewer.Answer {
	if m.cut.Load() {
		return down(len(records), renewer.Answer{Err: errCut})
	}
	return m.Store.Write(ctx, records)
}

// shift puts the store's clock ahead.
func (f *fleet) shift(all []renewer.Seen) []renewer.Seen {
	for i := range all {
		all[i].Now = all[i].Now.Add(time.Duration(f.ahead.Load()))
	}
	return all
}
