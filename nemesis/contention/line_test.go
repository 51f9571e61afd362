package contention_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/proxy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// These rows are about who is next. No adapter makes a difference there: processes stand in line.

// process is one that wants the lock.
type process struct {
	keeper *renewer.Keeper
	link   *proxy.Proxy
}

// line is a hot key and the processes that want it, beside another one that holds it.
type line struct {
	*scene
	processes []process
	calls     sync.WaitGroup
}

func newLine(t *testing.T, processes int) *line {
	l := &line{scene: &scene{t: t, redis: redistest.Start(t)}}
	l.other = l.newKeeper(nodeMark + "holder")
	for range processes {
		link := proxy.Start(t, l.redis.Addr())
		k := l.newKeeperBy(link.Addr(), nodeMark+"waiter")
		l.processes = append(l.processes, process{k, link})
	}
	t.Cleanup(l.calls.Wait) // the test's context has ended by then
	return l
}

// take has a process wait for the lock, and run the work under it.
func (l *line) take(i int, do func()) error {
	_, err := lockmw.Do(l.t.Context(), l.processes[i].keeper, key,
		func(context.Context) (any, error) { do(); return nil, nil },
		lockmw.Wait(soon))
	return err
}

// grant is which process has the lock, since when.
type grant struct {
	to int
	at time.Time
}

// allStand has all processes wait, one behind the other. They tell had when they have the lock.
func (l *line) allStand() (had <-chan grant) {
	grants := make(chan grant, len(l.processes))
	for i := range l.processes {
		l.calls.Go(func() { _ = l.take(i, func() { grants <- grant{i, time.Now()} }) })
		require.Eventually(l.t, func() bool { return l.length() == int64(i+1) }, soon,
			time.Millisecond)
	}
	return grants
}

// inOrder requires that the processes have the lock in order, from the first on, once it has been
// released. It returns when the first had it. One that stands still for its turn, a second, is
// passed over: that is no fault.
func (l *line) inOrder(had <-chan grant, first int, released time.Time) (begun time.Time) {
	const turn = 900 * time.Millisecond // less what the clocks may differ
	last, inTime := released, true
	for i := first; i < len(l.processes); i++ {
		g := <-had
		if i == first {
			begun = g.at
		}
		inTime = inTime && g.at.Sub(last) < turn
		if last = g.at; inTime {
			require.Equal(l.t, i, g.to)
		}
	}
	return begun
}

// length is how many places are in the line.
func (l *line) length() int64 {
	n, err := l.redis.Do("ZCARD", redisstore.DefaultPrefix+"{"+key+"}:waiters").AsInt64()
	require.NoError(l.t, err)
	return n
}

func TestManyProcessesHaveAHotKeyInOrder(t *testing.T) {
	t.Parallel()
	const processes, rounds = 64, 10
	l := newLine(t, processes)
	release := l.holds(key)
	had := l.allStand()
	released := time.Now()
	release()
	l.inOrder(had, 0, released)

	// Now each comes again as soon as it has had the lock. One that
	// comes while its request is under way may be before it, and so
	// may all others if the machine is busy; but not again and again.
	// Those that stand still meanwhile are few.
	var grants, long atomic.Int64
	for i := range processes {
		l.calls.Go(func() {
			for range rounds {
				came := grants.Load()
				assert.NoError(t, l.take(i, func() {
					if grants.Add(1)-1-came >= 3*processes {
						long.Add(1)
					}
				}))
			}
		})
	}
	l.calls.Wait()
	assert.EqualValues(t, processes*rounds, grants.Load())
	assert.LessOrEqual(t, long.Load(), int64(processes*rounds/100),
		"of those that have waited for many grants to others")
	l.nothingIsLeft()
}

// Those whose connections are gone are passed over at once, not a turn each.
func TestMostWaitersAreGoneAtOnce(t *testing.T) {
	t.Parallel()
	const processes, gone = 30, 20
	l := newLine(t, processes)
	release := l.holds(key)
	had := l.allStand()
	for _, p := range l.processes[:gone] {
		p.link.Refuse(true)
		p.link.Reset()
	}
	released := time.Now()
	release()
	begun := l.inOrder(had, gone, released)
	assert.Less(t, begun.Sub(released), gone*time.Second/4, "a turn is one second")
	l.nothingIsLeft()
	for _, p := range l.processes[:gone] {
		p.link.Refuse(false) // so that they can end in order
	}
}
