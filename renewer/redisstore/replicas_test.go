package redisstore_test

import (
	"context"
	"fmt"
	"strings"
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

// withReplica starts a primary and a replica of it, and a server to speak to
// the primary.
func withReplica(t testing.TB) (primary, replica *redistest.Server, s server) {
	t.Helper()
	both := redistest.StartEach(t, 2, "--repl-diskless-sync-delay", "0")
	require.NoError(t, both[1].Follow(both[0]))
	option, err := redisstore.ClientOption(both[0].ClientOption(), 15*time.Second)
	require.NoError(t, err)
	return both[0], both[1], server{option: option, admin: both[0].Client(t)}
}

func has(t *testing.T, server *redistest.Server, name string) bool {
	t.Helper()
	n, err := server.Do("EXISTS", redisstore.LeaseKey(redisstore.DefaultPrefix, name)).AsInt64()
	require.NoError(t, err)
	return n == 1
}

// A grant is on the replica. A refusal, which changes nothing that a fail-over could
// lose, waits for none: it waited for a tenth of the TTL while the replica was away.
func TestAGrantIsOnTheReplica(t *testing.T) {
	t.Parallel()
	primary, replica, s := withReplica(t)
	store := s.store(t, redisstore.Replicas(1))
	const n = 200
	for i := range n {
		name := fmt.Sprint("name ", i)
		if i%50 == 0 {
			s.ok(t, "SCRIPT", "FLUSH")
		}
		mine(t, store, claim(name, "a", time.Minute))
		require.True(t, has(t, replica, name), "as soon as it is granted")
	}
	waits := func() int64 {
		n, err := primary.Calls("wait")
		require.NoError(t, err)
		return n
	}
	before := waits()
	require.Equal(t, contract.StatusTaken, acquire(t, store, claim("name 0", "b", time.Minute)).Status)
	assert.Equal(t, before, waits())
	claims := make([]contract.Claim, 50)
	for i := range claims {
		claims[i] = claim(fmt.Sprint("batch ", i), "a", time.Minute)
	}
	claims[7] = claim("name 0", "b", time.Minute)
	for i, g := range store.Acquire(t.Context(), claims) {
		require.NoError(t, g.Err)
		require.Equal(t, i == 7, g.Status == contract.StatusTaken)
		require.True(t, has(t, replica, claims[i].Name) || i == 7)
	}
	assert.Equal(t, before+49, waits(), "for the grants alone")

	c := claim("reserves", "a", time.Minute)
	c.Place = 1
	assert.Positive(t, acquire(t, store, c).Reserved, "which the second answer tells less of")
}

// A grant that no replica confirms in a tenth of the TTL is unknown, and so is the same claim once
// more, on whatever connection, and one of a lease that was confirmed before: the replicas may have
// confirmed all that was written then, or never the grant. Meanwhile others are answered.
func TestAGrantThatNoReplicaConfirms(t *testing.T) {
	t.Parallel()
	primary, replica, s := withReplica(t)
	store := s.store(t, redisstore.Replicas(1))
	mine(t, store, claim("held", "a", time.Minute))
	info := func(section string) string {
		text, err := primary.Do("INFO", section).ToString()
		require.NoError(t, err)
		return text
	}
	require.Eventually(t, func() bool {
		text := info("replication")
		_, offset, _ := strings.Cut(text, "master_repl_offset:")
		offset, _, _ = strings.Cut(offset, "\r\n")
		return strings.Contains(text, ",offset="+offset+",")
	}, patience, time.Millisecond, "the replica confirms all")
	require.NoError(t, replica.Stop())

	g := acquire(t, store, claim("held", "a", time.Second))
	require.ErrorIs(t, g.Err, redisstore.ErrReplicas, "though all that was written is confirmed")
	begun := time.Now()
	g = acquire(t, store, claim("name", "a", 6*time.Second))
	took := time.Since(begun)
	assert.Equal(t, contract.StatusUnknown, g.Status, "what a fail-over would do is not known")
	assert.GreaterOrEqual(t, took, 598*time.Millisecond, "a tenth of the TTL, in whole ms")
	assert.Less(t, took, 3*time.Second, "and no half of it")
	require.ErrorIs(t, g.Err, redisstore.ErrReplicas)
	require.ErrorContains(t, g.Err, "0 of 1 within 600ms")
	require.NotErrorIs(t, g.Err, renewer.ErrRejected, "it may pass")

	other := s.store(t, redisstore.Replicas(1)) // its connections have written nothing
	for _, again := range []contract.Grant{
		acquire(t, store, claim("name", "a", time.Second)),
		acquire(t, other, claim("name", "a", time.Second)),
	} {
		require.ErrorIs(t, again.Err, redisstore.ErrReplicas)
	}
	assert.Equal(t, contract.StatusTaken,
		acquire(t, store, claim("held", "b", 3*time.Second)).Status,
		"what is taken is taken")

	granted := make(chan contract.Grant, 1)
	go func() {
		granted <- store.Acquire(t.Context(), []contract.Claim{claim("name", "a", 10*time.Minute)})[0]
	}()
	require.Eventually(t, func() bool {
		return strings.Contains(info("clients"), "blocked_clients:1\r\n")
	}, patience, time.Millisecond)
	require.Equal(t, contract.StatusHeld, renew(t, store, hold("held", "a", time.Minute)).Status)
	late := store.Acquire(within(t, 50*time.Millisecond),
		[]contract.Claim{claim("late", "a", time.Minute)})[0]
	require.ErrorIs(t, late.Err, context.DeadlineExceeded, "no longer than the caller's context")
	assert.Empty(t, granted, "which waits for up to a minute")

	require.NoError(t, replica.Cont())
	require.NoError(t, (<-granted).Err)
	assert.True(t, has(t, replica, "name"))
	g = acquire(t, s.store(t, redisstore.Replicas(2)), claim("two", "a", 10*time.Second))
	require.ErrorContains(t, g.Err, "1 of 2 within 1s")
}

// What asynchronous replication costs: a lock that the primary granted while
// its replica was cut off is not known when that takes over. The next owner
// gets it at once, with a higher token, while the first believes in it. With
// Replicas it would not have been granted.
func TestAGrantThatTheReplicaMissed(t *testing.T) {
	t.Parallel()
	primary, replica, s := withReplica(t)
	store, sure := s.store(t), s.store(t, redisstore.Replicas(1))
	mine(t, sure, claim("confirmed", "a", time.Minute))
	for _, args := range [][]string{
		{"ACL", "SETUSER", "default", "-psync", "-sync"},
		{"CLIENT", "KILL", "TYPE", "replica"},
	} {
		require.NoError(t, primary.Do(args...).Error())
	}
	require.Eventually(t, func() bool {
		info, err := replica.Do("INFO", "replication").ToString()
		return err == nil && strings.Contains(info, "master_link_status:down")
	}, patience, time.Millisecond)

	first := mine(t, store, claim("missed", "a", time.Minute)) // nothing tells of the danger
	g := acquire(t, sure, claim("unconfirmed", "a", time.Second))
	require.ErrorIs(t, g.Err, redisstore.ErrReplicas)

	require.NoError(t, replica.Do("REPLICAOF", "NO", "ONE").Error())
	primary.Kill()
	option, err := redisstore.ClientOption(replica.ClientOption(), 15*time.Second)
	require.NoError(t, err)
	after := server{option: option, admin: replica.Client(t)}.store(t)
	second := mine(t, after, claim("missed", "b", time.Minute))
	assert.Greater(t, second, first, "a resource that refuses lower tokens is safe")
	assert.Equal(t, contract.StatusTaken, renew(t, after, hold("missed", "a", time.Minute)).Status,
		"the first hears of it by its next heartbeat")
	assert.Equal(t, contract.StatusTaken,
		acquire(t, after, claim("confirmed", "b", time.Minute)).Status,
		"what a replica confirmed is known")
}

// By the engine: refused and cleaned up, or waited for.
func TestTheEngineFreesWhatNoReplicaConfirms(t *testing.T) {
	t.Parallel()
	primary, replica, s := withReplica(t)
	store := s.store(t, redisstore.Replicas(1))
	keeper := keeperOn(t, store, renewer.Config{
		TTL: 4 * time.Second, Heartbeat: time.Second / 2, RequestTimeout: time.Second,
		FailOver: time.Minute, // the last caller is to ask, though none was answered for so long
	})
	require.NoError(t, replica.Stop())

	_, err := keeper.Acquire(t.Context(), renewer.Request{Name: "try", Try: true})
	require.ErrorIs(t, err, renewer.ErrUnavailable)
	require.ErrorIs(t, err, redisstore.ErrReplicas)
	_, err = keeper.Acquire(t.Context(), renewer.Request{Name: "wait", MaxWait: 2 * time.Second})
	require.ErrorIs(t, err, renewer.ErrUnavailable)
	require.ErrorIs(t, err, redisstore.ErrReplicas)
	require.Eventually(t, func() bool {
		return !has(t, primary, "try") && !has(t, primary, "wait")
	}, patience, time.Millisecond,
		"no key is left")

	got := make(chan error)
	go func() {
		lease, err := keeper.Acquire(context.Background(), renewer.Request{
			Name: "patient", MaxWait: patience,
		})
		if err == nil {
			err = lease.Release(context.Background())
		}
		got <- err
	}()
	require.Eventually(t, func() bool {
		return has(t, primary, "patient")
	}, patience, time.Millisecond)
	require.NoError(t, replica.Cont())
	require.NoError(t, <-got)
}

// On a cluster it is the replica of the lock's own shard that counts, also when
// the slot has moved.
func TestReplicasOfAShard(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2, 1)
	store := clusterStore(t, cluster, 15*time.Second, redisstore.Replicas(1))
	replicaOf := map[*redistest.Server]*redistest.Server{}
	for i, m := range cluster.Masters {
		replicaOf[m] = cluster.Replicas[i]
		require.NoError(t, cluster.Replicas[i].Do("CONFIG", "SET", "replica-serve-stale-data",
			"yes").Error())
	}
	onReplica := func(server *redistest.Server, name string) bool {
		keys, err := server.Do("KEYS",
			redisstore.LeaseKey(redisstore.DefaultPrefix, name)).AsStrSlice()
		require.NoError(t, err)
		return len(keys) == 1
	}
	for i := range 40 {
		name := fmt.Sprint("name ", i)
		serving, err := cluster.Serving(redistest.Slot(name))
		require.NoError(t, err)
		mine(t, store, claim(name, "a", time.Minute))
		require.True(t, onReplica(replicaOf[serving], name))
	}
	const name = "on the move"
	from, err := cluster.Serving(redistest.Slot(name))
	require.NoError(t, err)
	to := cluster.Masters[0]
	if from == to {
		to = cluster.Masters[1]
	}
	require.NoError(t, cluster.MoveSlot(redistest.Slot(name), to))
	mine(t, store, claim(name, "a", time.Minute))
	require.True(t, onReplica(replicaOf[to], name))

	require.NoError(t, replicaOf[to].Stop())
	g := acquire(t, store, claim(name, "a", time.Second))
	require.ErrorIs(t, g.Err, redisstore.ErrReplicas)
}

// A server that had no slots when the client came is found.
func TestReplicasOfANewShard(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	fresh := cluster.Masters[2]
	slots := func(s *redistest.Server, subcommand string) error {
		args := []string{"CLUSTER", subcommand}
		for slot := 2 * redistest.Slots / 3; slot < redistest.Slots; slot++ {
			args = append(args, fmt.Sprint(slot))
		}
		return s.Do(args...).Error()
	}
	require.NoError(t, slots(fresh, "DELSLOTS"))
	// What it said of its slots before may still be on its way to the others.
	require.Eventually(t, func() bool {
		_ = slots(cluster.Masters[1], "DELSLOTS")
		_ = slots(cluster.Masters[0], "DELSLOTS")
		return slots(cluster.Masters[0], "ADDSLOTS") == nil
	}, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, cluster.Masters[0].Do("CLUSTER", "BUMPEPOCH").Error(),
		"one that still believes in the former owner")
	const name = "name" // in the first third
	require.NoError(t, cluster.AwaitOwner(redistest.Slots-1, cluster.Masters[0]))
	store := clusterStore(t, cluster, 15*time.Second, redisstore.Replicas(1))
	require.NoError(t, cluster.MoveSlot(redistest.Slot(name), fresh))
	g := acquire(t, store, claim(name, "a", time.Second))
	require.ErrorIs(t, g.Err, redisstore.ErrReplicas, "it has none, but was asked")
	assert.True(t, has(t, fresh, name))
}

func TestReplicasNeedTheRightToWait(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	client := s.user(t, redisstore.DefaultPrefix, strings.Fields(redisstore.Rights)...)
	_, err := redisstore.NewEngine(client)
	require.NoError(t, err, "without replicas it is not needed")
	_, err = redisstore.NewEngine(client, redisstore.Replicas(1))
	require.ErrorIs(t, err, renewer.ErrRejected)
	require.ErrorContains(t, err, "refuses WAIT")
	require.ErrorContains(t, err, "+wait")
	s.ok(t, "ACL", "SETUSER", "locks", "+wait")
	_, err = redisstore.NewEngine(client, redisstore.Replicas(1))
	require.NoError(t, err)

	_, err = redisstore.NewEngine(client, redisstore.Replicas(-1))
	require.ErrorIs(t, err, renewer.ErrConfig)
	require.ErrorContains(t, err, "Replicas: is -1")
}
