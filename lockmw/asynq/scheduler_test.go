package asynqmw_test

import (
	"context"
	"errors"
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
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// ticks notes which scheduler enqueued in which second.
type ticks struct {
	mu   sync.Mutex
	at   []time.Time
	node []int
}

func (e *ticks) add(node int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at, e.node = append(e.at, time.Now()), append(e.node, node)
}

// last is the node of the last tick.
func (e *ticks) last() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.node[len(e.node)-1]
}

// Four schedulers have the same entry, of each second. The leader resigns, the
// next one loses its lock, and each tick is enqueued by one.
func TestOneSchedulerOfMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := script.New()
		var told ticks
		var running, built atomic.Int32
		ctx, stopAll := context.WithCancel(t.Context())
		defer stopAll()
		stops, ended := map[int]context.CancelFunc{}, outcomes(4)
		for node := range 4 {
			k := newKeeper(t, store, renewer.Config{TTL: renewer.DefaultTTL})
			one, stop := context.WithCancel(ctx)
			stops[node] = stop
			go func() {
				ended[node] <- asynqmw.RunScheduler(one, k, "reports", func() (*everySecond, error) {
					built.Add(1)
					return &everySecond{func() { told.add(node) }, &running, t, nil, nil}, nil
				})
			}()
		}
		elapse := func(d time.Duration) { <-time.After(d) }
		elapse(5 * time.Second)
		require.EqualValues(t, 1, built.Load())
		first := told.last()
		stops[first]()
		require.ErrorIs(t, <-ended[first], context.Canceled)
		elapse(5 * time.Second)
		require.EqualValues(t, 2, built.Load())
		second := told.last()
		require.NotEqual(t, first, second)
		store.Overwrite(lockmw.Key("asynq-scheduler", "reports"), contract.Holder{},
			renewer.DefaultTTL)
		elapse(2 * renewer.DefaultTTL)
		require.EqualValues(t, 3, built.Load(), "the leader hears of it, and stands for the lead again")
		stopAll()
		for node := range 4 {
			if node != first {
				require.ErrorIs(t, <-ended[node], context.Canceled)
			}
		}
		assert.Zero(t, running.Load())
		assert.Greater(t, len(told.at), 15)
		for i, next := range told.at[1:] {
			assert.Greater(t, next.Truncate(time.Second), told.at[i].Truncate(time.Second),
				"one a tick: %v", told.node)
		}
	})
}

// everySecond is a scheduler that enqueues in each whole second, and sees that
// one runs at a time.
type everySecond struct {
	enqueue func()
	running *atomic.Int32
	t       *testing.T
	end     chan struct{}
	ended   chan struct{}
}

func (s *everySecond) Start() error {
	assert.EqualValues(s.t, 1, s.running.Add(1))
	s.end, s.ended = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(s.ended)
		for {
			select {
			case <-s.end:
				return
			case <-time.After(time.Until(time.Now().Truncate(time.Second).Add(time.Second))):
				s.enqueue()
			}
		}
	}()
	return nil
}

func (s *everySecond) Shutdown() {
	close(s.end)
	<-s.ended
	s.running.Add(-1)
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
