package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// shardChannels counts the channels that have subscribers in a server's shard.
func shardChannels(t *testing.T, server *redistest.Server) int {
	t.Helper()
	all, err := server.Do("PUBSUB", "SHARDCHANNELS").AsStrSlice()
	require.NoError(t, err)
	return len(all)
}

func masterOf(t *testing.T, cluster *redistest.Cluster, name string) *redistest.Server {
	t.Helper()
	server, err := cluster.Serving(redistest.Slot(name))
	require.NoError(t, err)
	return server
}

// Releases by another process wake those who watch, on whichever node the lock is, and bother no other node; a frozen node keeps
// nobody from hearing of the others' locks.
func TestWakeUpsAcrossNodes(t *testing.T) {
	t.Parallel()
	const n = 30
	cluster := redistest.StartCluster(t, 3, 0)
	store := clusterStore(t, cluster, 3*time.Second)
	other := clusterStore(t, cluster, 3*time.Second)
	var watches [n]*watched
	name := func(i int) string { return fmt.Sprint("name ", i) }
	for i := range watches {
		mine(t, other, claim(name(i), "a", time.Minute))
		watches[i] = newWatch(store, name(i))
		defer watches[i].stop()
	}
	sum := 0
	for _, w := range watches {
		w.await(t, "set up")
		w.clear()
	}
	for _, m := range cluster.Masters {
		here := shardChannels(t, m)
		assert.Positive(t, here, "each node has its own")
		sum += here
		plain, err := m.Do("PUBSUB", "CHANNELS").AsStrSlice()
		require.NoError(t, err)
		assert.Empty(t, plain)
	}
	assert.Equal(t, n, sum)

	for i, w := range watches {
		require.Equal(t, renewer.Mine, release(t, other, hold(name(i), "a", 0)).Status)
		w.await(t, "released")
		require.Equal(t, 1, w.count(), "once")
		w.clear()
	}
	for _, m := range cluster.Masters {
		calls, err := m.Calls("publish")
		require.NoError(t, err)
		assert.Zero(t, calls)
	}

	frozen := masterOf(t, cluster, name(0))
	for i := range watches {
		mine(t, other, claim(name(i), "a", time.Minute))
	}
	require.NoError(t, frozen.Stop())
	require.Eventually(t, func() bool { return len(watches[0].errors()) > 0 }, patience, time.Millisecond, "those of its locks are told")
	for i, w := range watches {
		if masterOf(t, cluster, name(i)) == frozen {
			continue
		}
		require.Empty(t, w.errors(), "and nobody else")
		require.Equal(t, renewer.Mine, release(t, other, hold(name(i), "a", 0)).Status)
		w.await(t, "released")
	}
	watches[0].clear()
	require.NoError(t, frozen.Cont())
	watches[0].await(t, "set up again")
}

// The subscription follows a slot, and whoever watches is woken, since a release may have slipped by.
func TestWatchFollowsTheSlot(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2, 0)
	store := clusterStore(t, cluster, 3*time.Second)
	const name, stays = "name", "another"
	w := newWatch(store, name)
	defer w.stop()
	w.await(t, "set up")
	from := masterOf(t, cluster, name)
	s := newWatch(store, stays)
	defer s.stop()
	s.await(t, "set up")
	for round := range 3 {
		to := cluster.Masters[0]
		if masterOf(t, cluster, name) == to {
			to = cluster.Masters[1]
		}
		w.clear()
		s.clear()
		require.NoError(t, cluster.MoveSlot(redistest.Slot(name), to))
		w.await(t, "set up where the slot is now")
		mine(t, store, claim(name, "a", time.Minute))
		w.clear()
		require.Equal(t, renewer.Mine, release(t, store, hold(name, "a", 0)).Status)
		w.await(t, "released")
		assert.Empty(t, w.errors(), "round %d", round)
		assert.Zero(t, s.count(), "others are not disturbed")
		assert.Empty(t, s.errors())
	}
	assert.NotSame(t, from, masterOf(t, cluster, name))
	w.stop()
	s.stop()
	for _, m := range cluster.Masters {
		require.Eventually(t, func() bool { return shardChannels(t, m) == 0 }, patience, time.Millisecond)
	}
}

func TestWatchFollowsAFailover(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1, "--cluster-node-timeout", "1000") // of two masters, one can't vote alone
	store := clusterStore(t, cluster, 3*time.Second)
	const name = "name"
	w := newWatch(store, name)
	defer w.stop()
	w.await(t, "set up")
	w.clear()
	masterOf(t, cluster, name).Kill()
	w.await(t, "set up on the promoted replica")
	require.Eventually(t, func() bool {
		return acquire(t, store, claim(name, "a", time.Minute)).Status == renewer.Mine
	}, patience, time.Millisecond)
	w.clear()
	require.Equal(t, renewer.Mine, release(t, store, hold(name, "a", 0)).Status)
	w.await(t, "released")
}

// On a server that knows no messages within a shard it is those to all nodes.
func TestWatchWithoutShardedMessages(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2, 0, "--rename-command", "SSUBSCRIBE", "")
	store := clusterStore(t, cluster, 3*time.Second)
	first, second := newWatch(store, "name"), newWatch(store, "another")
	defer first.stop()
	defer second.stop()
	for _, w := range []*watched{first, second} {
		w.await(t, "set up")
		assert.Empty(t, w.errors())
		w.clear()
	}
	for _, m := range cluster.Masters {
		require.NoError(t, m.Do("PUBLISH", redisstore.LeaseKey(redisstore.DefaultPrefix, "name")+":freed", "").Error())
		first.await(t, "from whichever node")
		first.clear()
	}
	first.stop()
	require.Eventually(t, func() bool {
		all, err := masterOf(t, cluster, "name").Do("PUBSUB", "CHANNELS", "*{name}*").AsStrSlice()
		return err == nil && len(all) == 0
	}, patience, time.Millisecond)
	assert.Zero(t, second.count())
}

// Each right on a cluster is needed: without it New refuses, or the watch says so.
func TestEachRightOnAClusterIsNeeded(t *testing.T) {
	t.Parallel()
	s := startCluster(t)
	all := strings.Fields(redisstore.ClusterRights)
	for i, missing := range all {
		if missing == "+cluster|shards" { // for later servers
			continue
		}
		rights := append(append([]string{}, all[:i]...), all[i+1:]...)
		store, err := redisstore.New(s.user(t, redisstore.DefaultPrefix, rights...))
		if !strings.HasSuffix(missing, "subscribe") {
			require.ErrorIs(t, err, renewer.ErrRejected, missing)
			assert.ErrorContains(t, err, missing, "which to grant")
			continue
		}
		require.NoError(t, err)
		first, second := newWatch(store, "a"), newWatch(store, "b")
		if missing == "+sunsubscribe" {
			first.await(t, "set up")
			second.await(t, "set up")
		}
		first.stop()
		require.Eventually(t, func() bool { return len(second.errors()) > 0 }, patience, time.Millisecond)
		assert.ErrorContains(t, second.errors()[0], "NOPERM")
		second.stop()
		store.Close()
	}
}
