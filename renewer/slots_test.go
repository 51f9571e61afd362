package renewer_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// deafOnce is a store whose first answer is lost, after a while.
type deafOnce struct {
	engine.Whole
	after time.Duration
	asked atomic.Int32
}

func (d *deafOnce) Engine() store.Store { return d }

func (d *deafOnce) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	grants := d.Whole.Acquire(ctx, claims)
	if d.asked.Add(1) == 1 {
		<-time.After(d.after)
		return []store.Grant{{Err: errors.New("the reply is lost")}}
	}
	return grants
}

// A caller got the last slot and does not know. It must not stand in line
// behind one that waits for that slot.
func TestASlotWhoseReplyWasLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &deafOnce{Whole: engine.In(memory.New()), after: 100 * time.Millisecond}
		k, err := renewer.New(d, renewer.Config{TTL: time.Minute})
		require.NoError(t, err)
		begun := time.Now()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				l, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: one})
				if assert.NoError(t, err) {
					assert.NoError(t, l.Release(t.Context()))
				}
			})
			<-time.After(10 * time.Millisecond)
		}
		wg.Wait()
		assert.Less(t, time.Since(begun), time.Second)
		require.NoError(t, k.Shutdown(t.Context()))
	})
}

var one = slots(1)

// Callers for whom there are slots ask side by side, and none waits for
// another's answer.
func TestSlotsAreAskedForSideBySide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, err := renewer.New(slow{engine.In(memory.New())}, renewer.Config{TTL: time.Minute})
		require.NoError(t, err)
		begun := time.Now()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				l, err := k.Acquire(t.Context(), renewer.Request{
					Name: "a", Limit: func() int { return 100 },
				})
				if assert.NoError(t, err) {
					assert.True(t, l.Limited())
					assert.Equal(t, "a", l.Name())
					assert.NoError(t, l.Release(t.Context()))
				}
			})
		}
		wg.Wait()
		assert.Equal(t, 100*time.Millisecond, time.Since(begun))
		require.NoError(t, k.Shutdown(t.Context()))
	})
}

// slow answers each acquire after 100 ms.
type slow struct{ engine.Whole }

func (s slow) Engine() store.Store { return s }

func (s slow) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	<-time.After(100 * time.Millisecond)
	return s.Whole.Acquire(ctx, claims)
}

// Those who have found a limit full stand in line, in the order in which they
// came.
func TestSlotsAreHadInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, err := renewer.New(memory.New(), renewer.Config{TTL: time.Minute})
		require.NoError(t, err)
		held, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: one})
		require.NoError(t, err)
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				l, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: one})
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				assert.NoError(t, l.Release(t.Context()))
			})
			<-time.After(time.Millisecond)
		}
		_, err = k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: one, MaxWaiters: 3})
		assert.ErrorIs(t, err, renewer.ErrQueueFull)
		require.NoError(t, held.Release(t.Context()))
		wg.Wait()
		assert.IsIncreasing(t, order)
		require.NoError(t, k.Shutdown(t.Context()))
	})
}

// A number that falls while a call waits refuses it at its next question: at 0
// the limit is closed, and below that the number is wrong.
func TestTheNumberFallsWhileACallWaits(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]error{0: renewer.ErrLimitClosed, -1: renewer.ErrConfig} {
		synctest.Test(t, func(t *testing.T) {
			k, err := renewer.New(memory.New(), renewer.Config{TTL: time.Minute})
			require.NoError(t, err)
			held, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: one})
			require.NoError(t, err)
			var number atomic.Int64
			number.Store(1)
			waited := background(func() error {
				_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: func() int {
					return int(number.Load())
				}})
				return err
			})
			synctest.Wait()
			number.Store(n)
			require.NoError(t, held.Release(t.Context()))
			require.ErrorIs(t, <-waited, want)
			held, err = k.Acquire(t.Context(), renewer.Request{
				Name: "a", Limit: one,
			}) // the turn is not kept for it
			require.NoError(t, err)
			require.NoError(t, held.Release(t.Context()))
			require.NoError(t, k.Shutdown(t.Context()))
		})
	}
}

// faultsTold notes what an observer is told of faults.
type faultsTold struct {
	renewer.NopObserver
	mu    sync.Mutex
	texts []string
}

func (o *faultsTold) Fault(f renewer.Fault) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.texts = append(o.texts, f.Doing+" "+f.Name+": "+f.Err.Error())
}

// That processes disagree about a limit is told once.
func TestLimitsThatDisagree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var o faultsTold
		k, err := renewer.New(memory.New(),
			renewer.Config{TTL: time.Minute, Observer: &o, Log: renewer.Silent})
		require.NoError(t, err)
		var all []*renewer.Lease
		for range 3 {
			l, err := k.Acquire(t.Context(), renewer.Request{
				Name: "a", Limit: func() int { return 3 },
			})
			require.NoError(t, err)
			all = append(all, l)
		}
		for range 5 {
			_, err = k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: one, Try: true})
			assert.ErrorIs(t, err, renewer.ErrBusy)
		}
		require.Len(t, o.texts, 1)
		assert.Contains(t, o.texts[0], "limit a: 3 hold it, and this process admits 1")
		for _, l := range all {
			require.NoError(t, l.Release(t.Context()))
		}
		require.NoError(t, k.Shutdown(t.Context()))
	})
}

// A store that has no limits is not asked twice, and the error says why,
// whatever else is asked for.
func TestLimitsOfAStoreThatHasNone(t *testing.T) {
	t.Parallel()
	nodes := make([]renewer.Store, 3)
	for i := range nodes {
		nodes[i] = memory.New()
	}
	q, err := quorum.New(nodes, quorum.Names("a", "b", "c"))
	require.NoError(t, err)
	k, err := renewer.New(q, renewer.Config{TTL: time.Minute})
	require.NoError(t, err)
	for _, manual := range []time.Duration{0, time.Minute} {
		_, err = k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: one, Manual: manual})
		assert.ErrorIs(t, err, renewer.ErrConfig)
		assert.ErrorContains(t, err, "a quorum has no limits")
	}
	require.NoError(t, k.Shutdown(t.Context()))
}

// placed counts the claims from a place, and the others.
type placed struct {
	engine.Whole
	with, without atomic.Int32
}

func (p *placed) Engine() store.Store { return p }

func (p *placed) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	if claims[0].Place != 0 {
		p.with.Add(1)
	} else {
		p.without.Add(1)
	}
	return p.Whole.Acquire(ctx, claims)
}

// Where callers had to wait a moment ago, the next one asks from a place at
// once: it is refused once and not twice. When none has had to for a while,
// callers ask side by side again.
func TestWhereASlotWasWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &placed{Whole: engine.In(memory.New())}
		k, err := renewer.New(p, renewer.Config{TTL: time.Minute})
		require.NoError(t, err)
		cycle := func() {
			l, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: one})
			if assert.NoError(t, err) {
				<-time.After(10 * time.Millisecond)
				assert.NoError(t, l.Release(t.Context()))
			}
		}
		for range 2 {
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(cycle)
			}
			wg.Wait()
			p.with.Store(0)
			p.without.Store(0)
			cycle()
			assert.EqualValues(t, 1, p.with.Load())
			assert.Zero(t, p.without.Load())
			<-time.After(3 * time.Second)
			cycle()
			assert.EqualValues(t, 1, p.without.Load())
		}
		require.NoError(t, k.Shutdown(t.Context()))
	})
}
