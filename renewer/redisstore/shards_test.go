package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// clusterStore is a store as recommended for locks of the given TTL.
func clusterStore(
	t testing.TB, cluster *redistest.Cluster, ttl time.Duration, opts ...redisstore.Option,
) *redisstore.Engine {
	t.Helper()
	option, err := redisstore.ClientOption(cluster.ClientOption(), ttl)
	require.NoError(t, err)
	client := cluster.Client(t, func(o *rueidis.ClientOption) { *o = option })
	store := storeOn(t, client,
		append(opts, redisstore.WriteTimeout(option.ConnWriteTimeout))...)
	return store
}

// A batch over all shards of which one is frozen: the others' answers are those
// of their servers, also where a script must be sent again, and only the frozen
// one's are unknown.
func TestAFrozenShardDelaysNoOther(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	store := clusterStore(t, cluster, 15*time.Second)
	var holds []contract.Hold
	on := map[int][]int{}
	for i := range 300 {
		name := fmt.Sprint("name ", i)
		mine(t, store, claim(name, "a", time.Minute))
		holds = append(holds, hold(name, "a", time.Minute))
		shard := store.Shard(name)
		serving, err := cluster.Serving(
			redistest.Slot(redisstore.LeaseKey(redisstore.DefaultPrefix, name)),
		)
		require.NoError(t, err)
		on[shard] = append(on[shard], i)
		first := holds[on[shard][0]].Name
		before, err := cluster.Serving(redistest.Slot(first))
		require.NoError(t, err)
		require.Same(t, before, serving, "a shard is a server: %q, %q", first, name)
	}
	require.Len(t, on, 3)
	for _, m := range cluster.Masters {
		require.NoError(t, m.Do("SCRIPT", "FLUSH").Error())
	}
	frozen := store.Shard("name 0")
	server, err := cluster.Serving(redistest.Slot("name 0"))
	require.NoError(t, err)
	require.NoError(t, server.Stop())

	for _, do := range []func(context.Context, []contract.Hold) []contract.Answer{
		store.Renew,
		store.Release,
	} {
		ctx := within(t, time.Second)
		answers := do(ctx, holds)
		for shard, items := range on {
			for _, i := range items {
				if shard == frozen {
					require.Equal(t, contract.StatusUnknown, answers[i].Status)
					require.Error(t, answers[i].Err)
				} else {
					require.NoError(t, answers[i].Err)
					require.Equal(t, contract.StatusHeld, answers[i].Status)
				}
			}
		}
	}
}

// A lock whose slot has moved travels with its new neighbours once that is known, and its
// subscription moves, even if no server has ended that.
func TestShardFollowsTheSlots(t *testing.T) {
	t.Parallel()
	cluster := startUnsharded(t, 2) // plain subscriptions outlive a move
	store := clusterStore(t, cluster, 15*time.Second)
	const name = "name"
	w := newWatch(store, name)
	defer w.stop()
	w.await(t, "set up")
	was, to := store.Shard(name), cluster.Masters[0]
	if masterOf(t, cluster, name) == to {
		to = cluster.Masters[1]
	}
	mine(t, store, claim(name, "a", time.Minute))
	require.NoError(t, cluster.MoveSlot(redistest.Slot(name), to))
	assert.Equal(t, contract.StatusHeld, renew(t, store, hold(name, "a", time.Minute)).Status)
	w.clear()
	store.Topology().Learn(t.Context())
	assert.Equal(t, 1-was, store.Shard(name))
	assert.Equal(t, contract.StatusHeld, renew(t, store, hold(name, "a", time.Minute)).Status)

	w.await(t, "set up where the slot is now")
	all, err := to.Do("PUBSUB", "CHANNELS").AsStrSlice()
	require.NoError(t, err)
	assert.Contains(t, all, redisstore.LeaseKey(redisstore.DefaultPrefix, name)+":freed")
}

// A store that could not ask at first asks as soon as a request is answered.
func TestShardsAreLearntLater(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	cluster := redistest.StartCluster(t, 2, 0)
	option, err := redisstore.ClientOption(cluster.ClientOption(), 15*time.Second)
	require.NoError(t, err)
	client := cluster.Client(t, func(o *rueidis.ClientOption) { *o = option })
	for _, m := range cluster.Masters {
		require.NoError(t, m.Stop())
	}
	store := storeOn(t, client)
	assert.Zero(t, store.Shard("name 0")+store.Shard("name 1")+store.Shard("name 2"))
	for _, m := range cluster.Masters {
		require.NoError(t, m.Cont())
	}
	require.Eventually(t, func() bool {
		return acquire(t, store, claim("name", "a", time.Minute)).Status == contract.StatusHeld &&
			store.Shard("name 0")+store.Shard("name 1")+store.Shard("name 2")+store.Shard(
				"name 3",
			) > 0
	}, patience, 10*time.Millisecond)
}
