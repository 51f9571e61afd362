package beat

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// A queue waits longer when its batches are small, and less when they are
// large, within bounds.
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
		q := newShardQueue[*lease](1, c.heartbeat, nil)
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

// lease is one that has heartbeats.
type lease struct {
	name  string
	shard int
	place Place
}

// plans are heartbeats, and leases for them: as many as wanted on each shard.
type plans struct {
	Heartbeats[*lease]

	leases []*lease
}

func newPlans(n, leases int) *plans {
	p := &plans{Heartbeats: New(Config[*lease]{
		TTL: 12 * time.Second, Heartbeat: 4 * time.Second, RequestTimeout: 2 * time.Second,
		Place: func(l *lease) *Place { return &l.place },
		Hold:  func(l *lease) store.Hold { return store.Hold{Name: l.name} },
	}, timing.NewClock(func() time.Duration { return 0 }))}
	for i := range leases {
		p.leases = append(p.leases, &lease{name: fmt.Sprint(i), shard: i % n})
	}
	return p
}

func (p *plans) plan(l *lease, at timing.Instant) { p.Plan(l, l.shard, at) }

// at is so long after the beginning.
func at(d time.Duration) timing.Instant { return timing.Instant(1).Add(d) }

// Each lease that is planned goes into one batch, when it is due or up to a
// quarter of an interval before, and batches hold leases of one shard only.
func TestAPlannedLeaseGoesIntoOneBatch(t *testing.T) {
	t.Parallel()
	p := newPlans(3, 2000)
	due := map[*lease]timing.Instant{}
	for _, l := range p.leases {
		due[l] = at(rand.N(4 * time.Second))
		p.plan(l, due[l])
	}
	for _, l := range p.leases[:500] { // some have other plans
		due[l] = at(rand.N(4 * time.Second))
		p.plan(l, due[l])
	}
	for _, l := range p.leases[500:600] {
		p.Unplan(l)
		p.Unplan(l)
		delete(due, l)
	}
	var now timing.Instant
	for now < timing.Never {
		b, next := p.Next(now)
		if b == nil {
			require.Greater(t, next, now)
			now = next
			continue
		}
		require.LessOrEqual(t, len(b.Leases), batchMost)
		require.Len(t, b.Holds, len(b.Leases))
		require.Equal(t, now, b.Sent)
		for i, l := range b.Leases {
			require.Equal(t, l.name, b.Holds[i].Name)
			require.Equal(t, b.Shard(), l.shard)
			planned, is := due[l]
			require.True(t, is)
			require.LessOrEqual(t, planned, now.Add(time.Second))
			require.Less(t, now.Sub(planned), 2*gapMost, "it waited for others")
			delete(due, l)
		}
		p.Complete(b, now, false)
	}
	require.Empty(t, due)
}

// A crowd is sent in its time though each timer is late; and timing.Never much
// of it at once.
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
		b, next := p.Next(now)
		if b == nil {
			now = max(next, now.Add(time.Millisecond)).Add(100 * time.Microsecond)
			atOnce = 0
			continue
		}
		sent++
		atOnce++
		require.LessOrEqual(t, atOnce, 3)
		p.Complete(b, now, false)
	}
	require.Less(t, now.Sub(begun), batches*fullGap*21/20)
	require.Greater(t, now.Sub(begun), batches*fullGap*19/20)
}

// When the store hangs, no lease waits for another's answer, and few batches
// are under way.
func TestAHungStoreHasFewBatches(t *testing.T) {
	t.Parallel()
	p := newPlans(1, 3000)
	var batches []*Batch[*lease]
	last := timing.Instant(0)
	for i, l := range p.leases {
		now := at(time.Duration(i+1) * time.Millisecond)
		p.plan(l, now)
		b, _ := p.Next(now)
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
		p.Complete(batches[0], now, true)
		batches = batches[1:]
	}
	_, next := p.Next(now)
	require.LessOrEqual(t, next.Sub(now), gapMost)
}

// For a TTL after a failure a heartbeat takes no other leases along.
func TestTroubleTakesNoOthersAlong(t *testing.T) {
	t.Parallel()
	p := newPlans(1, 2)
	early, soon := p.leases[0], p.leases[1]
	count := func(now timing.Instant, trouble bool) int {
		p.plan(early, now)
		p.plan(soon, now.Add(time.Second/2))
		b, _ := p.Next(now)
		require.NotNil(t, b)
		n := len(b.Leases)
		p.Complete(b, now, trouble)
		return n
	}
	require.Equal(t, 2, count(at(10*time.Second), true))
	require.Equal(t, 1, count(at(20*time.Second), false))
	require.Equal(t, 1, count(at(21*time.Second), false))
	require.Equal(t, 2, count(at(22*time.Second), false))
}
