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
	"github.com/lockbeat/lockbeat/testutil/redistest"
	"github.com/lockbeat/lockbeat/testutil/script"
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
	for name, build := range map[string]func(e *env, told *enqueued, node int) (asynqmw.Scheduler,
		error){
		"Scheduler": func(e *env, told *enqueued, node int) (asynqmw.Scheduler, error) {
			s := asynq.NewScheduler(e.redis(), &asynq.SchedulerOpts{
				LogLevel:       asynq.FatalLevel,
				PreEnqueueFunc: func(*asynq.Task, []asynq.Option) { told.add(node) },
				PostEnqueueFunc: func(_ *asynq.TaskInfo, err error) {
					assert.NoError(e.t, err)
				},
			})
			_, err := s.Register("@every 1s", asynq.NewTask("report", nil))
			return s, err
		},
		"PeriodicTaskManager": func(e *env, told *enqueued, node int) (asynqmw.Scheduler, error) {
			return asynq.NewPeriodicTaskManager(asynq.PeriodicTaskManagerOpts{
				RedisConnOpt: e.redis(), PeriodicTaskConfigProvider: entries{},
				SchedulerOpts: &asynq.SchedulerOpts{
					LogLevel:       asynq.FatalLevel,
					PreEnqueueFunc: func(*asynq.Task, []asynq.Option) { told.add(node) },
				},
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			e := newEnv(t, server.ClientOption())
			var told enqueued
			var running, built atomic.Int32
			ctx, stopAll := context.WithCancel(t.Context())
			stops, ended := map[int]context.CancelFunc{}, outcomes(4)
			for node := range 4 {
				k := e.keeper(func(c *renewer.Config) { c.TTL = 3 * time.Second })
				one, stop := context.WithCancel(ctx)
				stops[node] = stop
				go func() {
					ended[node] <- asynqmw.RunScheduler(one, k, "reports",
						func() (asynqmw.Scheduler, error) {
							built.Add(1)
							s, err := build(e, &told, node)
							return &counted{s, &running, t}, err
						}, asynqmw.Settle(100*time.Millisecond))
				}()
			}
			leads := func(but ...int) func() bool { // somebody else has enqueued twice
				return func() bool {
					nodes := told.nodes()
					if len(nodes) < 2 || nodes[len(nodes)-1] != nodes[len(nodes)-2] {
						return false
					}
					return !slices.Contains(but, nodes[len(nodes)-1])
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
			require.NoError(t, server.Do("SET", "lockbeat:{"+
				lockmw.Key("asynq-scheduler", "reports")+"}", "taken", "XX", "PX", "6000").Error())
			require.Eventually(t, func() bool {
				return built.Load() > terms && len(told.nodes()) > before+3
			}, soon, tick,
				"the leader hears of it by its next heartbeat, and stands for the lead again "+
					"like all others")
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
		})
	}
}

// entries is what a PeriodicTaskManager is given.
type entries struct{}

func (entries) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) {
	return []*asynq.PeriodicTaskConfig{
		{Cronspec: "@every 1s", Task: asynq.NewTask("report", nil)},
	}, nil
}

// counted sees that one runs at a time.
type counted struct {
	asynqmw.Scheduler

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

// An "@every" entry counts from when its leader began. So a schedule whose leader changed by the
// keeper's MaxHold would never come to one that is longer.
func TestASchedulerRunsOnPastMaxHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, script.New(),
			renewer.Config{TTL: renewer.DefaultTTL, MaxHold: 2 * time.Minute})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var built, ticks atomic.Int32
		ended := make(chan error, 1)
		go func() {
			ended <- asynqmw.RunScheduler(ctx, k, "reports", func() (*everyThree, error) {
				built.Add(1)
				return &everyThree{&ticks, make(chan struct{})}, nil
			})
		}()
		<-time.After(3*2*time.Minute + time.Minute)
		synctest.Wait()
		require.EqualValues(t, 1, built.Load(), "terms")
		require.EqualValues(t, 2, ticks.Load())
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// everyThree is a scheduler with the entry "@every 3m".
type everyThree struct {
	ticks *atomic.Int32
	stop  chan struct{}
}

func (s *everyThree) Start() error {
	go func() {
		ticker := time.NewTicker(3 * time.Minute)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.ticks.Add(1)
			case <-s.stop:
				return
			}
		}
	}()
	return nil
}

func (s *everyThree) Shutdown() { close(s.stop) }

func outcomes(n int) []chan error {
	all := make([]chan error, n)
	for i := range all {
		all[i] = make(chan error, 1)
	}
	return all
}

func TestSchedulerThatCantBeRun(t *testing.T) {
	t.Parallel()
	e := onEmbedded(t)
	k := e.keeper()
	broken := errors.New("no such time zone")
	none := func() (*asynq.Scheduler, error) { return nil, broken }
	ctx := t.Context()
	err := asynqmw.RunScheduler(ctx, k, "reports", none, asynqmw.Settle(0))
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, `"reports"`)
	require.ErrorIs(t, asynqmw.RunScheduler(ctx, nil, "reports", none), renewer.ErrConfig)
	require.ErrorIs(t, asynqmw.RunScheduler[*asynq.Scheduler](ctx, k, "reports", nil),
		renewer.ErrConfig)
	require.ErrorIs(t, asynqmw.RunScheduler(ctx, k, "reports", none, asynqmw.Settle(-1)),
		renewer.ErrConfig)
	require.ErrorIs(t, asynqmw.RunScheduler(ctx, k, "", none), renewer.ErrName)
	over := func() (*asynq.Scheduler, error) {
		s := asynq.NewScheduler(e.redis(), &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
		return s, errors.Join(s.Start(), stop(s))
	}
	require.ErrorContains(t, asynqmw.RunScheduler(ctx, k, "reports", over, asynqmw.Settle(0)),
		"starting the scheduler")
	lease, err := k.TryAcquire(ctx, lockmw.Key("asynq-scheduler", "reports"))
	require.NoError(t, err, "the lead is free again")
	require.NoError(t, lease.Release(ctx))
}

func stop(s *asynq.Scheduler) error { s.Shutdown(); return nil }
