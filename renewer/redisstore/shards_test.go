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
	store, err := redisstore.NewEngine(client,
		append(opts, redisstore.WriteTimeout(option.ConnWriteTimeout))...)
	require.NoError(t, err)
	t.Cleanup(store.Close)
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
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
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

// A lock whose slot has moved travels with its new neighbours once that is
// known.
func TestShardFollowsTheSlots(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2, 0)
	store := clusterStore(t, cluster, 15*time.Second)
	const name = "name"
	was := store.Shard(name)
	serving, err := cluster.Serving(redistest.Slot(name))
	require.NoError(t, err)
	to := cluster.Masters[0]
	if to == serving {
		to = cluster.Masters[1]
	}
	mine(t, store, claim(name, "a", time.Minute))
	require.NoError(t, cluster.MoveSlot(redistest.Slot(name), to))
	assert.Equal(t, contract.StatusHeld, renew(t, store, hold(name, "a", time.Minute)).Status)
	store.Topology().Learn(t.Context())
	assert.Equal(t, 1-was, store.Shard(name))
	assert.Equal(t, contract.StatusHeld, renew(t, store, hold(name, "a", time.Minute)).Status)
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
	store, err := redisstore.NewEngine(client)
	require.NoError(t, err)
	t.Cleanup(store.Close)
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

// Whichever server is asked first.
func TestShardsAreLearntFromWhoAnswers(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	option, err := redisstore.ClientOption(cluster.ClientOption(), 15*time.Second)
	require.NoError(t, err)
	client := cluster.Client(t, func(o *rueidis.ClientOption) { *o = option })
	require.NoError(t, cluster.Masters[1].Stop())
	cluster.Masters[2].Kill()
	for range 4 {
		store, err := redisstore.NewEngine(client)
		require.NoError(t, err, "a server that does not answer is no reason to refuse")
		shards := map[int]bool{}
		for i := range 100 {
			shards[store.Shard(fmt.Sprint("name ", i))] = true
		}
		assert.Len(t, shards, 3)
		store.Close()
	}
}

// What Redis does to the other shards by default when one of them has
// gone, and no longer does if it is told so.
func TestFullCoverage(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0, "--cluster-node-timeout", "1000")
	store := clusterStore(t, cluster, 15*time.Second)
	gone, here := cluster.Masters[0], "name 0"
	for i := 0; masterOf(t, cluster, here) == gone; i++ {
		here = fmt.Sprint("name ", i)
	}
	mine(t, store, claim(here, "a", time.Minute))
	gone.Kill()
	var down contract.Answer
	require.Eventually(t, func() bool {
		down = renew(t, store, hold(here, "a", time.Minute))
		return down.Status != contract.StatusHeld
	}, patience, 10*time.Millisecond)
	require.Equal(t, contract.StatusUnknown, down.Status, "it is no loss")
	require.ErrorContains(t, down.Err, "CLUSTERDOWN")
	for _, m := range cluster.Masters[1:] {
		require.NoError(t, m.Do("CONFIG", "SET", "cluster-require-full-coverage", "no").Error())
	}
	require.Eventually(t, func() bool {
		return renew(t, store, hold(here, "a", time.Minute)).Status == contract.StatusHeld
	}, patience, 10*time.Millisecond)
}
