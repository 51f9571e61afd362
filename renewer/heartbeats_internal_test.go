package renewer

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// A queue waits longer when its batches are small, and less when they are large, within bounds.
func TestAQueueFindsItsPace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		heartbeat, first, small, large time.Duration
	}{
		{10 * time.Second, gapLeast, gapMost, gapLeast},
		// a sixty-fourth
		{1280 * time.Millisecond, gapLeast, 20 * time.Millisecond, gapLeast},
		{64 * time.Millisecond, time.Millisecond, time.Millisecond, time.Millisecond},
	} {
		q := newShardQueue(1, c.heartbeat)
		assert.Equal(t, c.first, q.gap)
		for range 20 {
			q.pace(batchGood - 1)
		}
		assert.Equal(t, c.small, q.gap)
		for range 20 {
			q.pace(batchGood)
		}
		assert.Equal(t, c.large, q.gap)
	}
}

// plans are heartbeats that have no keeper, and leases for them: as many as wanted on each shard.
type plans struct {
	heartbeats

	leases []*Lease
	shard  shardMap
}

// shardMap is a store of which only the shards are asked for.
type shardMap struct {
	Store

	of map[string]int
}

func (m shardMap) Shard(name string) int { return m.of[name] }

func newPlans(n, leases int) *plans {
	cfg := Config{
		TTL: 12 * time.Second, Heartbeat: 4 * time.Second,
		RequestTimeout: 2 * time.Second,
	}
	k := &Keeper{cfg: cfg}
	p := &plans{shard: shardMap{of: map[string]int{}}}
	p.heartbeats = newHeartbeats(cfg, asking.ShardsOf(p.shard),
		timing.NewClock(func() time.Duration { return 0 }))
	for i := range leases {
		l := &Lease{k: k, name: fmt.Sprint(i)}
		p.shard.of[l.name] = i % n
		p.leases = append(p.leases, l)
	}
	return p
}

// at is so long after the beginning.
func at(d time.Duration) instant { return instant(1).Add(d) }

// Each lease that is planned goes into one batch, when it is due or up to a quarter of an interval
// before, and batches hold leases of one shard only.
func TestAPlannedLeaseGoesIntoOneBatch(t *testing.T) {
	t.Parallel()
	p := newPlans(3, 2000)
	due := map[*Lease]instant{}
	for _, l := range p.leases {
		due[l] = at(rand.N(4 * time.Second))
		p.plan(l, due[l])
	}
	for _, l := range p.leases[:500] { // some have other plans
		due[l] = at(rand.N(4 * time.Second))
		p.plan(l, due[l])
	}
	for _, l := range p.leases[500:600] {
		p.unplan(l)
		p.unplan(l)
		delete(due, l)
	}
	var now instant
	for now < never {
		b, next := p.next(now)
		if b == nil {
			require.Greater(t, next, now)
			now = next
			continue
		}
		require.LessOrEqual(t, len(b.leases), batchMost)
		require.Len(t, b.holds, len(b.leases))
		require.Equal(t, now, b.sent)
		for i, l := range b.leases {
			require.Equal(t, l.name, b.holds[i].Name)
			require.Equal(t, b.shard(), p.shard.of[l.name])
			planned, is := due[l]
			require.True(t, is)
			require.LessOrEqual(t, planned, now.Add(time.Second))
			require.Less(t, now.Sub(planned), 2*gapMost, "it waited for others")
			delete(due, l)
		}
		p.complete(b, now, false)
	}
	require.Empty(t, due)
}

// What is due in a crowd goes in several batches, soon after each other.
func TestACrowdGoesInSeveralBatches(t *testing.T) {
	t.Parallel()
	p := newPlans(1, 2*batchMost+50)
	for _, l := range p.leases {
		p.plan(l, at(time.Second))
	}
	now := at(time.Second)
	for _, want := range []int{batchMost, batchMost, 50} {
		b, next := p.next(now)
		require.NotNil(t, b)
		require.Equal(t, now, next, "there may be more")
		require.Len(t, b.holds, want)
		b, next = p.next(now)
		require.Nil(t, b)
		if want == batchMost {
			require.LessOrEqual(t, next.Sub(now), fullGap)
		}
		now = next
	}
	require.Equal(t, never, now)
}

// A crowd is sent in its time though each timer is late; and never much of it at once.
func TestACrowdKeepsItsPaceByLateTimers(t *testing.T) {
	t.Parallel()
	const batches = 200
	p := newPlans(1, batches*batchMost)
	begun := at(time.Second)
	for _, l := range p.leases {
		p.plan(l, begun)
	}
	now, sent, atOnce := begun, 0, 0
	for sent < batches {
		b, next := p.next(now)
		if b == nil {
			now = max(next, now.Add(time.Millisecond)).Add(100 * time.Microsecond)
			atOnce = 0
			continue
		}
		sent++
		atOnce++
		require.LessOrEqual(t, atOnce, 3)
		p.complete(b, now, false)
	}
	require.Less(t, now.Sub(begun), batches*fullGap*21/20)
	require.Greater(t, now.Sub(begun), batches*fullGap*19/20)
}

// When the store hangs, no lease waits for another's answer, and few batches are under way.
func TestAHungStoreHasFewBatches(t *testing.T) {
	t.Parallel()
	p := newPlans(1, 3000)
	var batches []*batch
	last := instant(0)
	for i, l := range p.leases {
		now := at(time.Duration(i+1) * time.Millisecond)
		p.plan(l, now)
		b, _ := p.next(now)
		if b == nil {
			continue
		}
		if len(batches) >= batchesAtOnce {
			require.GreaterOrEqual(t, now.Sub(last), p.cfg.RequestTimeout/8)
		}
		batches, last = append(batches, b), now
	}
	require.LessOrEqual(t, len(batches), batchesAtOnce+3*8/2+1)
	require.Greater(t, len(batches), batchesAtOnce+4)

	// Answers make room: the next need not wait so long.
	now := at(3 * time.Second)
	for len(batches) >= batchesAtOnce {
		p.complete(batches[0], now, true)
		batches = batches[1:]
	}
	_, next := p.next(now)
	require.LessOrEqual(t, next.Sub(now), gapMost)
}

// For a TTL after a failure a heartbeat takes no other leases along.
func TestTroubleTakesNoOthersAlong(t *testing.T) {
	t.Parallel()
	p := newPlans(1, 2)
	early, soon := p.leases[0], p.leases[1]
	count := func(now instant, trouble bool) int {
		p.plan(early, now)
		p.plan(soon, now.Add(time.Second/2))
		b, _ := p.next(now)
		require.NotNil(t, b)
		n := len(b.leases)
		p.complete(b, now, trouble)
		return n
	}
	require.Equal(t, 2, count(at(10*time.Second), true))
	require.Equal(t, 1, count(at(20*time.Second), false))
	require.Equal(t, 1, count(at(21*time.Second), false))
	require.Equal(t, 2, count(at(22*time.Second), false))
}

// A lease follows its name to another shard.
func TestAPlanMovesToAnotherShard(t *testing.T) {
	t.Parallel()
	p := newPlans(2, 1)
	l := p.leases[0]
	p.plan(l, at(time.Second))
	p.shard.of[l.name] = 1
	p.plan(l, at(2*time.Second))
	b, next := p.next(at(time.Second))
	require.Nil(t, b)
	require.Equal(t, at(2*time.Second), next)
	b, _ = p.next(next)
	require.Equal(t, 1, b.shard())
	p.complete(b, next, false)

	again, _ := p.next(next)
	require.Nil(t, again)
	p.plan(l, at(9*time.Second))
	again, _ = p.next(at(9 * time.Second))
	require.Same(t, b, again, "a batch is used again")
	require.Len(t, again.leases, 1)
}
