//go:build unix

package redistest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func set(t *testing.T, c rueidis.Client, key, value string) {
	t.Helper()
	require.NoError(t, c.Do(t.Context(), c.B().Set().Key(key).Value(value).Build()).Error())
}

func TestCluster(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	cluster := redistest.StartCluster(t, 3, 0)
	t.Logf("ready after %v", time.Since(begun))
	client := cluster.Client(t)
	require.Equal(t, rueidis.ClientModeCluster, client.Mode())
	for i := range 100 {
		key := fmt.Sprint("k", i)
		set(t, client, key, key)
		server, err := cluster.Serving(redistest.Slot(key))
		require.NoError(t, err)
		value, err := server.Do("GET", key).ToString()
		require.NoError(t, err, "it is with the one who serves its slot")
		assert.Equal(t, key, value)
	}
	for _, key := range []string{
		"", "123456789", "{a}b", "x{a}y{b}", "x{}y", "{", "}{a", "{a",
		"a}", "{}{a}", "\x00\xff",
	} {
		want, err := cluster.Masters[0].Do("CLUSTER", "KEYSLOT", key).AsInt64()
		require.NoError(t, err)
		assert.EqualValues(t, want, redistest.Slot(key), "%q", key)
	}
	for _, m := range cluster.Masters {
		n, err := m.DBSize()
		require.NoError(t, err)
		assert.Positive(t, n, "each has a share")
	}
}

func TestMoveSlot(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2, 0)
	client := cluster.Client(t)
	const one, two = "{tag}1", "{tag}2"
	slot := redistest.Slot(one)
	from, err := cluster.Serving(slot)
	require.NoError(t, err)
	to := cluster.Masters[0]
	if from == to {
		to = cluster.Masters[1]
	}
	set(t, client, one, "1")
	set(t, client, two, "2")

	_, err = cluster.BeginMove(slot, from)
	require.ErrorContains(t, err, "already")
	move, err := cluster.BeginMove(slot, to)
	require.NoError(t, err)
	require.NoError(t, move.Keys(one))
	require.NoError(t, move.Keys(one), "gone already")
	require.ErrorContains(t, from.Do("GET", one).Error(), "ASK")
	require.ErrorContains(t, from.Do("MGET", one, two).Error(), "TRYAGAIN")
	value, err := from.Do("GET", two).ToString()
	require.NoError(t, err)
	assert.Equal(t, "2", value, "it still serves what it has")
	value, err = get(t.Context(), client, one)
	require.NoError(t, err)
	assert.Equal(t, "1", value)
	still, err := cluster.Serving(slot)
	require.NoError(t, err)
	assert.Same(t, from, still)

	require.NoError(t, move.Finish())
	now, err := cluster.Serving(slot)
	require.NoError(t, err)
	assert.Same(t, to, now)
	require.ErrorContains(t, from.Do("GET", two).Error(), "MOVED")
	value, err = get(t.Context(), client, two)
	require.NoError(t, err)
	assert.Equal(t, "2", value)

	require.NoError(t, cluster.MoveSlot(slot, from))
	value, err = from.Do("GET", one).ToString()
	require.NoError(t, err)
	assert.Equal(t, "1", value)
}

func TestClusterFailover(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1, "--cluster-node-timeout", "1000")
	client := cluster.Client(t)
	set(t, client, "k", "v")
	slot := redistest.Slot("k")
	i := 0
	for serving, err := cluster.Serving(slot); serving != cluster.Masters[i]; i++ {
		require.NoError(t, err)
	}
	replica := cluster.Replicas[i]

	require.NoError(t, cluster.Failover(replica, false))
	require.Eventually(t, func() bool {
		s, err := cluster.Serving(slot)
		return err == nil && s == replica
	}, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, cluster.AwaitWhole())
	value, err := get(t.Context(), client, "k")
	require.NoError(t, err)
	assert.Equal(t, "v", value)

	require.NoError(t, replica.Stop())
	require.NoError(t, cluster.Failover(cluster.Masters[i], true), "a frozen primary is not asked")
	require.NoError(t, replica.Cont())
	require.NoError(t, cluster.AwaitWhole(), "and becomes a replica")
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	sentinel := redistest.StartSentinel(t)
	t.Logf("ready after %v", time.Since(begun))
	client := sentinel.Client(t)
	require.Equal(t, rueidis.ClientModeSentinel, client.Mode())
	set(t, client, "k", "v")
	primary, err := sentinel.Primary()
	require.NoError(t, err)
	replica, err := sentinel.Replica()
	require.NoError(t, err)
	assert.Same(t, sentinel.Data[0], primary)
	assert.Same(t, sentinel.Data[1], replica)

	require.NoError(t, sentinel.Failover())
	require.NoError(t, sentinel.AwaitWhole())
	primary, err = sentinel.Primary()
	require.NoError(t, err)
	assert.Same(t, sentinel.Data[1], primary)

	begun = time.Now()
	require.NoError(t, primary.Stop())
	require.NoError(t, sentinel.Patience(false))
	require.NoError(t, sentinel.AwaitPrimary(sentinel.Data[0]), "a frozen primary is noticed")
	t.Logf("failed over after %v", time.Since(begun))
	require.NoError(t, primary.Cont())
	require.NoError(t, sentinel.AwaitWhole(), "and becomes a replica")
	require.Eventually(t, func() bool {
		value, err := get(t.Context(), client, "k")
		return err == nil && value == "v"
	}, 10*time.Second, 10*time.Millisecond)
}
