package asynqmw_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
)

// enqueued notes when each scheduler was about to enqueue the task.
type enqueued struct {
	mu   sync.Mutex
	at   []time.Time
	node []int
}

func (e *enqueued) add(node int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at, e.node = append(e.at, time.Now()), append(e.node, node)
}

func (e *enqueued) nodes() []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]int(nil), e.node...)
}

// Four schedulers have the same entry. The leader resigns, the next
// one loses its lock, and each tick is enqueued by one.
func TestOneSchedulerOfMany(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var told enqueued
	var running, built atomic.Int32
	ctx, stopAll := context.WithCancel(t.Context())
	stops, ended := map[int]context.CancelFunc{}, outcomes(4)
	for node := range 4 {
		k := e.keeper(func(c *renewer.Config) { c.TTL = 2 * time.Second })
		one, stop := context.WithCancel(ctx)
		stops[node] = stop
		go func() {
			ended[node] <- asynqmw.RunScheduler(one, k, "reports", func() (*counted, error) {
				built.Add(1)
				s := asynq.NewScheduler(e.redis(), &asynq.SchedulerOpts{
					LogLevel:       asynq.FatalLevel,
					PreEnqueueFunc: func(*asynq.Task, []asynq.Option) { told.add(node) },
				})
				_, err := s.Register("@every 1s", asynq.NewTask("report", nil))
				return &counted{s, &running, t}, err
			})
		}()
	}
	leads := func(but ...int) func() bool { // somebody else has enqueued twice
		return func() bool {
			nodes := told.nodes()
			n := len(nodes)
			return n > 1 && nodes[n-1] == nodes[n-2] && !slices.Contains(but, nodes[n-1])
		}
	}
	require.Eventually(t, leads(), soon, tick)
	first := told.nodes()[0]
	stops[first]()
	require.ErrorIs(t, <-ended[first], context.Canceled)
	require.Eventually(t, leads(first), soon, tick)
	before, terms := len(told.nodes()), built.Load()
	// Another program's for two TTLs: by then the leader has heard of it. A key that is
	// deleted may have a new leader before that.
	require.NoError(t, e.Do("SET", "lockbeat:{"+lockmw.Key("asynq-scheduler", "reports")+"}",
		"taken", "XX", "PX", "4000").Error())
	require.Eventually(t, func() bool {
		return built.Load() > terms && len(told.nodes()) > before+2
	}, soon, tick, "the leader hears of it, and stands for the lead again like all others")
	stopAll()
	for node := range 4 {
		if node != first {
			require.ErrorIs(t, <-ended[node], context.Canceled)
		}
	}
	info, err := e.inspector.GetQueueInfo("default")
	require.NoError(t, err)
	assert.Equal(t, len(told.nodes()), info.Size)
	for i, next := range told.at[1:] {
		if told.node[i] != told.node[i+1] { // ticks are whole seconds
			assert.Greater(t, next.Truncate(time.Second), told.at[i].Truncate(time.Second),
				"one a tick: %v", told.node)
		}
	}
}

// counted sees that one runs at a time.
type counted struct {
	*asynq.Scheduler

	running *atomic.Int32
	t       *testing.T
}

func (c *counted) Start() error {
	assert.EqualValues(c.t, 1, c.running.Add(1))
	return c.Scheduler.Start()
}

func (c *counted) Shutdown() {
	c.Scheduler.Shutdown()
	c.running.Add(-1)
}

func outcomes(n int) []chan error {
	all := make([]chan error, n)
	for i := range all {
		all[i] = make(chan error, 1)
	}
	return all
}

func TestSchedulerThatCantBeRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		k, _ := scripted(t)
		broken := errors.New("no such time zone")
		none := func() (*asynq.PeriodicTaskManager, error) { return nil, broken }
		begun := time.Now()
		err := asynqmw.RunScheduler(ctx, k, "reports", none)
		require.ErrorIs(t, err, broken)
		require.ErrorContains(t, err, `"reports"`)
		assert.Equal(t, time.Second, time.Since(begun), "longer than clocks differ")
		require.ErrorIs(t, asynqmw.RunScheduler(ctx, nil, "reports", none), renewer.ErrConfig)
		require.ErrorIs(t, asynqmw.RunScheduler[*asynq.Scheduler](ctx, k, "reports", nil),
			renewer.ErrConfig)
		require.ErrorIs(t, asynqmw.RunScheduler(ctx, k, "", none), renewer.ErrName)
		require.ErrorContains(t, asynqmw.RunScheduler(ctx, k, "reports", func() (bad, error) {
			return bad{}, nil
		}), `starting the scheduler of "reports": started twice`)
		lease, err := k.Acquire(ctx, renewer.Request{
			Name: lockmw.Key("asynq-scheduler", "reports"), Try: true,
		})
		require.NoError(t, err, "the lead is free again")
		require.NoError(t, lease.Release(ctx))
	})
}

// bad is a scheduler that does not start.
type bad struct{}

func (bad) Start() error { return errors.New("started twice") }
func (bad) Shutdown()    {}
