package campaign_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/nemesis/internal/campaign"
	"github.com/lockbeat/lockbeat/nemesis/internal/crew"
	"github.com/lockbeat/lockbeat/nemesis/internal/history"
	"github.com/lockbeat/lockbeat/nemesis/internal/worker"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

const (
	leakTTL = time.Second
	atATime = 12 // keepers that are cut off
	callers = 3  // of each
)

// cutOff counts what keepers were at when they were cut off from the server.
type cutOff struct{ keepers, held, waited atomic.Int64 }

// No slot leaks, and no key is left, however their owners end: keepers whose connections are closed
// at any moment, while they ask, wait, hold, renew or free; and processes that are killed, with all
// that they hold and wait for. A long run has 10,000 of them.
func TestNoSlotLeaks(t *testing.T) {
	t.Parallel()
	server := start(t)
	disconnects, kills := suite.Size(100, 9_800), suite.Size(3, 200)
	limits := make(map[string]int)
	var names []string
	for i := range 300 {
		name := fmt.Sprint("lock-", i)
		names, limits[name] = append(names, name), 2+i%2
	}
	var specs []worker.Spec
	for i := range 3 {
		specs = append(specs, worker.Spec{
			Seed: uint64(i), Deploy: target(server.Addr(), server.Addr()), Keys: names, //nolint:gosec // small
			Limits: limits, Callers: 40, Long: 20, TTL: leakTTL,
		})
	}
	workers, err := crew.Start(specs)
	require.NoError(t, err)

	var counts cutOff
	var ending sync.WaitGroup
	for g := range atATime {
		ending.Go(func() {
			dice := rand.New(rand.NewPCG(7, uint64(g))) //nolint:gosec // faults, not secrets
			for i := g; i < disconnects; i += atATime {
				counts.disconnect(t, server, limits, names[dice.IntN(len(names))], dice)
			}
		})
	}
	for i := range kills {
		begun := history.Now()
		// It has had slots since it was started, or others waited for all that time.
		assert.Eventually(t, func() bool {
			return len(workers.HadSince(begun)) > 0
		}, patience, time.Millisecond)
		assert.NoError(t, workers.Kill(i%len(specs)))
		assert.NoError(t, workers.Start(i%len(specs)))
	}
	ending.Wait()
	require.NoError(t, workers.End(patience))

	keeper, end := join(t, server, leakTTL)
	for name, n := range limits {
		assert.NoError(t, campaign.TakeAll(t.Context(), keeper, name, n, leakTTL+patience))
	}
	end()
	told := history.Judge(history.Run{Processes: workers.Told(), Limits: limits})
	for _, v := range told.Violations {
		assert.NotContains(t, []string{"exclusion", "order", "token twice"}, v.Rule, v)
	}
	t.Logf("%d keepers cut off, while their callers held %d slots and waited for %d; %d processes "+
		"killed; these had %d slots", counts.keepers.Load(), counts.held.Load(),
		counts.waited.Load(), kills, told.Grants)
}

// disconnect makes a keeper and cuts it off, at a random moment.
func (c *cutOff) disconnect(
	t *testing.T, server *redistest.Server, limits map[string]int, name string, dice *rand.Rand,
) {
	link, err := proxy.New(server.Addr())
	if !assert.NoError(t, err) {
		return
	}
	defer link.Close()
	n, err := connect(target(server.Addr(), link.Addr()), leakTTL)
	if !assert.NoError(t, err) {
		return
	}
	defer n.close()
	ctx, over := context.WithCancel(context.Background())
	var calls sync.WaitGroup
	for range callers {
		release := dice.IntN(4) == 0
		calls.Go(func() {
			lease, err := n.keeper.Acquire(ctx, renewer.Request{
				Name: name, Limit: atMost(limits[name]),
			})
			if err != nil {
				c.waited.Add(1)
				return
			}
			if !release {
				<-ctx.Done()
				c.held.Add(1)
			}
			_ = lease.Release(ctx) // it can't, or may not know
		})
	}
	<-time.After(time.Duration(dice.Int64N(int64(20 * time.Millisecond))))
	link.Close()
	c.keepers.Add(1)
	over()
	calls.Wait()
	_ = n.keeper.Shutdown(ctx) // it can't free what it has
}
