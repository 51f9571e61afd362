package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// shardChannels counts the channels that have subscribers in a server's shard.
func shardChannels(t *testing.T, server *redistest.Server) int {
	t.Helper()
	all, err := server.Do("PUBSUB", "SHARDCHANNELS").AsStrSlice()
	require.NoError(t, err)
	return len(all)
}

// startSharded starts a cluster for a test of what servers older than Redis 7
// do not have.
func startSharded(t *testing.T, masters int) *redistest.Cluster {
	t.Helper()
	cluster := redistest.StartCluster(t, masters, 0)
	if !cluster.Masters[0].Knows("SSUBSCRIBE") {
		t.Skip("the server knows no messages within a shard")
	}
	return cluster
}

// startUnsharded starts a cluster that is like one of Redis 6.2.
func startUnsharded(t *testing.T, masters int) *redistest.Cluster {
	t.Helper()
	var args []string
	if redistest.Start(t).Knows("SSUBSCRIBE") {
		args = []string{"--rename-command", "SSUBSCRIBE", ""}
	}
	return redistest.StartCluster(t, masters, 0, args...)
}

// clusterRights are those that a user needs on a server of a cluster.
func clusterRights(server *redistest.Server) []string {
	rights := redisstore.ClusterRights
	if !server.Knows("SSUBSCRIBE") {
		rights = strings.NewReplacer("+sp", "+p", "+ss", "+s").Replace(rights)
	}
	return strings.Fields(rights)
}

func masterOf(t *testing.T, cluster *redistest.Cluster, name string) *redistest.Server {
	t.Helper()
	server, err := cluster.Serving(redistest.Slot(name))
	require.NoError(t, err)
	return server
}

// Releases by another process wake those who watch, on whichever node the lock
// is, and bother no other node; a frozen node keeps no watch from hearing of
// the others' locks.
func TestWakeUpsAcrossNodes(t *testing.T) {
	t.Parallel()
	const n = 30
	cluster := startSharded(t, 3)
	store := clusterStore(t, cluster, 6*time.Second)
	other := clusterStore(t, cluster, 6*time.Second)
	var watches [n]*watched
	name := func(i int) string { return fmt.Sprint("name ", i) }
	for i := range watches {
		mine(t, other, claim(name(i), "a", time.Minute))
		waitedFor(t, store, name(i))
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
		require.Equal(t, contract.StatusHeld, release(t, other, hold(name(i), "a", 0)).Status)
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
		waitedFor(t, store, name(i))
	}
	require.NoError(t, frozen.Stop())
	require.Eventually(t, func() bool {
		return len(watches[0].errors()) > 0
	}, patience, time.Millisecond, "those of its locks are told")
	for i, w := range watches {
		if masterOf(t, cluster, name(i)) == frozen {
			continue
		}
		require.Empty(t, w.errors(), "and no others")
		require.Equal(t, contract.StatusHeld, release(t, other, hold(name(i), "a", 0)).Status)
		w.await(t, "released")
	}
	watches[0].clear()
	require.NoError(t, frozen.Cont())
	watches[0].await(t, "set up again")
}

// A watch that begins where the slot was, as the store has not heard yet that
// it has moved, ends up where it is. A subscription that the server ends
// though it still has the slot is begun again. No others are disturbed.
func TestWatchIsSentOn(t *testing.T) {
	t.Parallel()
	cluster := startSharded(t, 2)
	store := clusterStore(t, cluster, 12*time.Second)
	const name, stays = "name", "n"
	from := masterOf(t, cluster, name)
	require.Same(t, from, masterOf(t, cluster, stays))
	to := cluster.Masters[0]
	if from == to {
		to = cluster.Masters[1]
	}
	s := newWatch(store, stays)
	defer s.stop()
	s.await(t, "set up")
	s.clear()
	require.NoError(t, cluster.MoveSlot(redistest.Slot(name), to))
	w := newWatch(store, name)
	defer w.stop()
	w.await(t, "set up")
	assert.Equal(t, 1, shardChannels(t, to))

	w.clear()
	client, slot := to.Client(t), fmt.Sprint(redistest.Slot(name))
	b := client.B()
	for _, r := range client.DoMulti(t.Context(), b.Arbitrary("MULTI").Build(),
		b.Arbitrary("CLUSTER", "DELSLOTS", slot).Build(),
		b.Arbitrary("CLUSTER", "ADDSLOTS", slot).Build(), b.Arbitrary("EXEC").Build()) {
		require.NoError(t, r.Error())
	}
	w.await(t, "set up again")
	assert.Equal(t, 1, shardChannels(t, to))
	assert.Empty(t, append(w.errors(), s.errors()...))
	assert.Zero(t, s.count())
}

// A slot goes to and fro, while watches on it come and go: in the end
// it is watched where it is, and others were not disturbed.
func TestWatchOnASlotToAndFro(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	cluster := redistest.StartCluster(t, 2, 0)
	store := clusterStore(t, cluster, 15*time.Second)
	const name = "name"
	var still []*watched
	for i := range 10 {
		w := newWatch(store, fmt.Sprint("another ", i))
		defer w.stop()
		w.await(t, "set up")
		still = append(still, w)
	}
	kept := newWatch(store, name)
	defer kept.stop()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			w := newWatch(store, name)
			// in another slot, so that subscriptions come and go as well
			second := newWatch(store, "{"+name)
			<-time.After(time.Duration(i%5) * time.Millisecond)
			w.stop()
			second.stop()
		}
	})
	for range 30 {
		to := cluster.Masters[0]
		if masterOf(t, cluster, name) == to {
			to = cluster.Masters[1]
		}
		require.NoError(t, cluster.MoveSlot(redistest.Slot(name), to))
	}
	stop()
	wg.Wait()
	require.Eventually(t, func() bool {
		all, err := masterOf(t, cluster, name).Do("PUBSUB", "SHARDCHANNELS").AsStrSlice()
		return err == nil && slices.Contains(all,
			redisstore.LeaseKey(redisstore.DefaultPrefix, name)+":freed")
	}, patience, time.Millisecond)
	mine(t, store, claim(name, "a", time.Minute))
	waitedFor(t, store, name)
	kept.clear()
	require.Equal(t, contract.StatusHeld, release(t, store, hold(name, "a", 0)).Status)
	kept.await(t, "released")
	for _, w := range append(still, kept) {
		assert.Empty(t, w.errors())
	}
}

func TestWatchFollowsAFailover(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	// of two masters, one can't vote alone
	cluster := redistest.StartCluster(t, 3, 1, "--cluster-node-timeout", "1000")
	store := clusterStore(t, cluster, 3*time.Second)
	const name = "name"
	w := newWatch(store, name)
	defer w.stop()
	w.await(t, "set up")
	w.clear()
	masterOf(t, cluster, name).Kill()
	w.await(t, "set up on the promoted replica")
	require.Eventually(t, func() bool {
		return acquire(t, store, claim(name, "a", time.Minute)).Status == contract.StatusHeld
	}, patience, time.Millisecond)
	waitedFor(t, store, name)
	w.clear()
	require.Equal(t, contract.StatusHeld, release(t, store, hold(name, "a", 0)).Status)
	w.await(t, "released")
}

// On a server that knows no messages within a shard it is those to all nodes.
func TestWatchWithoutShardedMessages(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	cluster := startUnsharded(t, 2)
	store := clusterStore(t, cluster, 12*time.Second)
	first, second := newWatch(store, "name"), newWatch(store, "another")
	for _, w := range []*watched{first, second} {
		defer w.stop()
		w.await(t, "set up")
		assert.Empty(t, w.errors())
		w.clear()
	}
	for _, m := range cluster.Masters {
		require.NoError(t, m.Do("PUBLISH",
			redisstore.LeaseKey(redisstore.DefaultPrefix, "name")+":freed", "").Error())
		first.await(t, "from whichever node")
		first.clear()
	}
	assert.Zero(t, second.count())
	first.stop()
	second.stop()
	require.Eventually(t, func() bool {
		all, err := masterOf(t, cluster, "name").Do("PUBSUB", "CHANNELS", "*{name}*").AsStrSlice()
		return err == nil && len(all) == 0
	}, patience, time.Millisecond)
}

// Each right on a cluster is needed: without it New refuses, or the watch says
// so.
func TestEachRightOnAClusterIsNeeded(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	s := startCluster(t)
	all := strings.Fields(redisstore.ClusterRights)
	for i, missing := range all {
		if missing == "+cluster|shards" { // for later servers
			continue
		}
		rights := append(append([]string{}, all[:i]...), all[i+1:]...)
		store, err := redisstore.NewEngine(s.user(t, redisstore.DefaultPrefix, rights...))
		if !strings.HasSuffix(missing, "subscribe") {
			require.ErrorIs(t, err, renewer.ErrRejected, missing)
			assert.ErrorContains(t, err, missing, "which to grant")
			continue
		}
		require.NoError(t, err)
		t.Cleanup(store.Close)
		w := newWatch(store, "a")
		require.Eventually(t, func() bool {
			return len(w.errors()) > 0
		}, patience, time.Millisecond)
		assert.ErrorContains(t, w.errors()[0], "NOPERM")
		w.stop()
		store.Close()
	}
}
