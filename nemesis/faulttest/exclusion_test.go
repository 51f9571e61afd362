//go:build unix

package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// protected is what a lock protects, watched from outside of the lock.
type protected struct {
	inside  atomic.Int64
	counter atomic.Int64 // atomic for the race detector only: it is read and written in two steps
	fence   atomic.Int64
	faults  atomic.Pointer[string]
}

func (p *protected) use(fence int64) {
	if n := p.inside.Add(1); n != 1 {
		p.fault("%d holders at once", n)
	}
	if before := p.fence.Swap(fence); before >= fence {
		p.fault("fence %d after %d", fence, before)
	}
	n := p.counter.Load()
	for range 10 {
		runtime.Gosched() // so that another holder, if there is one, comes in between
	}
	p.counter.Store(n + 1)
	p.inside.Add(-1)
}

func (p *protected) fault(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	p.faults.CompareAndSwap(nil, &text)
}

func TestManyContend(t *testing.T) {
	t.Parallel()
	const keepers, goroutines, rounds = 4, 64, 2
	server := redistest.Start(t)
	var p protected
	var errs [keepers * goroutines]error
	var workers sync.WaitGroup
	for k := range keepers {
		n := join(t, server, renewer.Config{TTL: 5 * time.Second})
		for g := range goroutines {
			workers.Go(func() {
				for range rounds {
					_, err := lockmw.Do(context.Background(), n.keeper, "lock",
						func(ctx context.Context) (struct{}, error) {
							p.use(lockmw.Fence(ctx))
							return struct{}{}, ctx.Err()
						}, lockmw.Wait(3*patience), lockmw.Strict())
					errs[k*goroutines+g] = errors.Join(errs[k*goroutines+g], err)
				}
			})
		}
	}
	workers.Wait()
	require.NoError(t, errors.Join(errs[:]...))
	if fault := p.faults.Load(); fault != nil {
		require.Fail(t, *fault)
	}
	assert.EqualValues(t, keepers*goroutines*rounds, p.counter.Load(), "increments were lost")
	assert.Empty(t, mustLook(t, server, "lock").value)
}

// lineHas reports whether so many callers of a node's process stand in line for a lock: then a
// further one finds the line full. The one that asks leaves at once.
func lineHas(t *testing.T, n *node, name string, callers int) bool {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	leave()
	_, err := n.keeper.Acquire(ctx, name, renewer.MaxWaiters(callers))
	return errors.Is(err, renewer.ErrQueueFull)
}

func TestLineIsInArrivalOrder(t *testing.T) {
	t.Parallel()
	const callers = 50
	n := join(t, redistest.Start(t), renewer.Config{TTL: renewer.DefaultTTL})
	first := n.acquire(t, "lock")
	order := make(chan int, callers)
	var errs [callers]error
	var line sync.WaitGroup
	for i := range callers {
		line.Go(func() {
			var lease *renewer.Lease
			if lease, errs[i] = n.keeper.Acquire(t.Context(), "lock"); errs[i] == nil {
				order <- i
				errs[i] = lease.Release(context.Background())
			}
		})
		require.Eventually(t, func() bool {
			return lineHas(t, n, "lock", i+1)
		}, patience, 10*time.Microsecond)
	}
	require.NoError(t, first.Release(t.Context()))
	line.Wait()
	require.NoError(t, errors.Join(errs[:]...))
	for i := range callers {
		require.Equal(t, i, <-order)
	}
}
