package simtest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
)

// rowPlan is fine weather for so many processes.
func rowPlan(processes int) plan {
	p := plan{seed: 1, quota: 1 << 30, processes: processes}.crowded(newDice(1, "row"))
	p.processes, p.observed, p.kills, p.impatient = processes, false, false, false
	p.cfg.TTL = 15 * time.Second
	return p
}

// Most of those who wait die at once. The first live one has the lock at once
// where the server sees that they are dead, and after a TTL where it does not.
// It costs the others no more than that, once.
func TestMostWaitersDieAtOnce(t *testing.T) {
	t.Parallel()
	const all, most = 30, 20
	for name, row := range map[string]struct {
		dies     func(i int) bool
		machines bool
		within   time.Duration
		lapsed   int
	}{
		"the first 20":               {func(i int) bool { return i < most }, false, 10 * time.Millisecond, 0},
		"two of three":               {func(i int) bool { return i%3 != 2 }, false, 10 * time.Millisecond, 0},
		"all but the last":           {func(i int) bool { return i < all-1 }, false, 10 * time.Millisecond, 0},
		"machines, every second":     {func(i int) bool { return i%2 == 0 }, true, 16 * time.Second, 1},
		"machines, the last 20":      {func(i int) bool { return i >= all-most }, true, 10 * time.Millisecond, 1},
		"machines, the first 20":     {func(i int) bool { return i < most }, true, 16 * time.Second, 1},
		"machines, all but the last": {func(i int) bool { return i < all-1 }, true, 16 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(rowPlan(all + 1))
				holder, err := w.processes[all].keeper().Acquire(t.Context(), renewer.Request{
					Name: "a",
				})
				require.NoError(t, err)
				var wg sync.WaitGroup
				var mu sync.Mutex
				var got []time.Duration
				for _, p := range w.processes[:all] {
					k := p.keeper()
					wg.Go(func() {
						if l, err := k.Acquire(context.Background(), renewer.Request{
							Name: "a",
						}); err == nil {
							mu.Lock()
							got = append(got, w.now())
							mu.Unlock()
							pass(time.Millisecond)
							_ = l.Release(context.Background())
						}
					})
					pass(10 * time.Millisecond)
				}
				live := 0
				for i, p := range w.processes[:all] {
					if row.dies(i) {
						p.kill(row.machines)
					} else {
						live++
					}
				}
				freed := w.now()
				require.NoError(t, holder.Release(t.Context()))
				wg.Wait()
				require.Len(t, got, live)
				assert.LessOrEqual(t, got[0]-freed, row.within, "the first")
				assert.LessOrEqual(t, got[live-1]-freed,
					time.Duration(row.lapsed)*16*time.Second+time.Second, "the last")
				assert.LessOrEqual(t, w.tally.n[turnsLapsed], row.lapsed)
				for _, p := range w.processes {
					p.shutdown(time.Minute, !p.life().link.dead.Load())
				}
				require.Empty(t, w.ledger.violations)
			})
		})
	}
}

// A process in which each head leaves after 100 ms has its turn as often as the
// others, who wait for as long as it takes, though a turn of all takes longer.
func TestAHeadThatLeavesAllTheTime(t *testing.T) {
	t.Parallel()
	const all, rounds = 10, 50
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(rowPlan(all))
		turns := make([]int, all)
		var wg sync.WaitGroup
		var over bool
		var mu sync.Mutex
		for i, p := range w.processes {
			callers := 1
			if i == 0 {
				callers = 5
			}
			for c := range callers {
				wg.Go(func() {
					pass(time.Duration(c) * impatience / time.Duration(callers))
					for mu.Lock(); !over; mu.Lock() {
						mu.Unlock()
						patience := patience
						if i == 0 {
							patience = impatience
						}
						l, err := p.keeper().Acquire(context.Background(), renewer.Request{
							Name: "a", MaxWait: patience,
						})
						if err != nil {
							continue
						}
						mu.Lock()
						turns[i]++
						over = over || turns[1] == rounds
						mu.Unlock()
						pass(20 * time.Millisecond)
						_ = l.Release(context.Background())
					}
					mu.Unlock()
				})
			}
		}
		wg.Wait()
		assert.GreaterOrEqual(t, turns[0], rounds*8/10, fmt.Sprint(turns))
		assert.Zero(t, w.tally.n[turnsLapsed])
		for _, p := range w.processes {
			p.shutdown(time.Minute, true)
		}
		require.Empty(t, w.ledger.violations)
	})
}
