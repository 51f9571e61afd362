//go:build unix

package faulttest_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// member is a keeper on several servers, as one process would have it.
type member struct {
	client rueidis.Client
	keeper *renewer.Keeper
	store  *redisstore.Store
}

// enlist makes a keeper on what option leads to. servers are let go
// on at the end of the test, when the keeper must shut down in order.
func enlist(
	t *testing.T, option rueidis.ClientOption, servers []*redistest.Server, cfg renewer.Config,
	opts ...redisstore.Option,
) *member {
	t.Helper()
	option, err := redisstore.ClientOption(option, cfg.TTL)
	require.NoError(t, err)
	client := connect(t, option)
	store, err := redisstore.New(client,
		append(opts, redisstore.WriteTimeout(option.ConnWriteTimeout))...)
	require.NoError(t, err)
	m := &member{client: client, store: store}
	m.keeper, err = renewer.New(store, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, s := range servers {
			_ = s.Cont() // fails only if it has been killed
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
		defer cancel()
		if err := m.keeper.Shutdown(ctx); !t.Failed() {
			assert.NoError(t, err)
		}
		store.Close()
		client.Close()
	})
	return m
}

// takeMany acquires n locks, from several goroutines.
func (m *member) takeMany(t *testing.T, n int) []*renewer.Lease {
	t.Helper()
	leases := make([]*renewer.Lease, n)
	errs := make([]error, n)
	next := make(chan int)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for i := range next {
				leases[i], errs[i] = m.keeper.Acquire(context.Background(), fmt.Sprint("lock ", i),
					renewer.MaxWait(patience))
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	return leases
}

func (m *member) releaseAll(leases []*renewer.Lease) {
	next := make(chan *renewer.Lease)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for l := range next {
				_ = l.Release(context.Background()) // of a lost one it is ErrLost
			}
		})
	}
	for _, l := range leases {
		next <- l
	}
	close(next)
	wg.Wait()
}

// expiries asks a server when each of its leases expires: by its wall clock, which is the test's.
func expiries(t *testing.T, server *redistest.Server) map[string]time.Time {
	t.Helper()
	const script = `local all = {}
for _, key in ipairs(redis.call('KEYS', 'lockbeat:{*}')) do
	all[#all + 1] = key
	all[#all + 1] = redis.call('PEXPIRETIME', key)
end
return all`
	parts, err := server.Do("EVAL_RO", script, "0").ToArray()
	require.NoError(t, err)
	all := make(map[string]time.Time)
	for pair := range slices.Chunk(parts, 2) {
		name, err := pair[0].ToString()
		require.NoError(t, err)
		ms, err := pair[1].AsInt64()
		require.NoError(t, err)
		all[name] = time.UnixMilli(ms)
	}
	return all
}

// mixedBeats counts heartbeats that failed for some of their leases, but not for all.
type mixedBeats struct {
	renewer.NopObserver
	n atomic.Int32
}

func (m *mixedBeats) Renewed(_ context.Context, r renewer.Renewed) {
	if r.Failed > 0 && r.OK > 0 {
		m.n.Add(1)
	}
}

// One of three shards stands still while 10,000 leases are held: none of the others'
// is lost or even late, and each of its own is told before its key can expire.
func TestAFrozenShardCostsNoOther(t *testing.T) {
	t.Parallel()
	const n = 10_000
	// The others notice that it is gone, and go on without it. Each would refuse everything if it
	// missed the other for so long too, as on a busy machine.
	cluster := redistest.StartCluster(t, 3, 0, "--cluster-node-timeout", "2000",
		"--cluster-require-full-coverage", "no")
	mixed := &mixedBeats{}
	cfg := renewer.Config{
		TTL: 6 * time.Second, Heartbeat: 1500 * time.Millisecond,
		Margin: 1500 * time.Millisecond, Observer: mixed,
	}
	m := enlist(t, cluster.ClientOption(), cluster.Nodes(), cfg)
	leases := m.takeMany(t, n)
	told := make([]chan time.Time, n)
	for i, l := range leases {
		told[i] = make(chan time.Time, 1)
		context.AfterFunc(l.Context(), func() { told[i] <- time.Now() })
	}
	pass(cfg.Heartbeat)

	victim := cluster.Masters[1]
	// no heartbeat may come between the look and the freeze
	mustDo(t, victim, "CLIENT", "PAUSE", "60000", "WRITE")
	owned := expiries(t, victim)
	require.NoError(t, victim.Stop())
	frozen := time.Now()
	pass(cfg.TTL)

	least, elsewhere, own := time.Hour, 0, 0
	for i, l := range leases {
		until, its := owned[key(l.Name())]
		if !its {
			if !assert.NoError(t, l.Err()) {
				elsewhere++
			}
			assert.True(t, l.Valid())
			continue
		}
		own++
		select {
		case at := <-told[i]:
			least = min(least, until.Sub(at))
			var lost *renewer.LostError
			require.ErrorAs(t, l.Err(), &lost)
			assert.Equal(t, renewer.ReasonExpired, lost.Reason)
		default:
			require.Fail(t, "not told", "%s, %v after its server froze", l.Name(),
				time.Since(frozen))
		}
	}
	assert.Zero(t, mixed.n.Load(),
		"no heartbeat failed for some of its leases only: those of the frozen shard travel apart")
	t.Logf("%d leases on the frozen shard, each told at least %v before its key could expire; %d "+
		"lost elsewhere", own, least, elsewhere)
	assert.Positive(t, least)
	assert.InDelta(t, n/3, own, n/10)
	require.NoError(t, victim.Cont())
	mustDo(t, victim, "CLIENT", "UNPAUSE")
	m.releaseAll(leases)
}
