package asynqmw_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/testutil/redistest"
	"github.com/lockbeat/lockbeat/testutil/suite"
)

// goesOn is how soon after a release, or a slot's arrival, the tasks in line have run. Those that
// came while a slot moved come again after 5 s; those with a place, by themselves, after the TTL of
// their keepers: 15 s.
const goesOn = 9 * time.Second

// locksOnACluster is an env whose locks are on a cluster.
func locksOnACluster(t *testing.T) (queues, locks *env, cluster *redistest.Cluster) {
	cluster = redistest.StartCluster(t, 3, 0)
	return newEnv(t, redistest.Start(t).ClientOption()), newEnv(t, cluster.ClientOption()), cluster
}

// leaseOf is the key of a user's lock.
func leaseOf(user string) string { return "lockbeat:{order:" + user + "}" }

// beginMove begins to move the slot of a user's lock to another server.
func beginMove(
	t *testing.T, cluster *redistest.Cluster, user string,
) (move *redistest.Move, to *redistest.Server) {
	slot := redistest.Slot(leaseOf(user))
	serving, err := cluster.Serving(slot)
	require.NoError(t, err)
	for _, to = range cluster.Masters {
		if to != serving {
			break
		}
	}
	move, err = cluster.BeginMove(slot, to)
	require.NoError(t, err)
	return move, to
}

// keysIn is how many keys in the slot of a user's lock a server has.
func keysIn(t *testing.T, server *redistest.Server, user string) int64 {
	slot := strconv.Itoa(redistest.Slot(leaseOf(user)))
	n, err := server.Do("CLUSTER", "COUNTKEYSINSLOT", slot).AsInt64()
	require.NoError(t, err)
	return n
}

// halfWay are users, and which keys of their locks are on the server to which the slot moves.
var halfWay = map[string][]string{
	"none": nil, "lease": {""}, "tasks": {tasksSuffix}, "slot": {slotSuffix}, "some": {"", tasksSuffix},
	"all": {"", tasksSuffix, slotSuffix, wokenSuffix},
}

// The slots of some locks stand still half way to another server, some of the keys here and some
// there, while more tasks come and the holders release the locks.
func TestTasksInLineWhileTheSlotIsHalfWay(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	queues, locks, cluster := locksOnACluster(t)
	f := newFleet(queues, locks, 2, 40, time.Millisecond, asynqmw.InLine(queues.redis()))
	k := locks.keeper()
	var ids []string
	var releases []func()
	moves, arrived := make(map[string]*redistest.Move), make(map[string]int64)
	servers := make(map[string]*redistest.Server)
	for user := range halfWay {
		releases = append(releases, hold(t, k, user))
		ids = append(ids, f.enqueue(user))
		locks.awaitSlot(user)
		for range 5 {
			ids = append(ids, f.enqueue(user))
		}
		f.awaitParked(ids[len(ids)-1])
	}
	for user, suffixes := range halfWay {
		moves[user], servers[user] = beginMove(t, cluster, user)
		for _, suffix := range suffixes {
			require.NoError(t, moves[user].Keys(leaseOf(user)+suffix))
		}
		arrived[user] = keysIn(t, servers[user], user)
		for range 3 {
			ids = append(ids, f.enqueue(user))
		}
	}
	for _, release := range releases {
		release()
	}
	<-time.After(2 * time.Second) // they try all the while
	assert.Zero(t, f.record.ran())
	for user, server := range servers {
		assert.LessOrEqual(t, keysIn(t, server, user), arrived[user], user)
	}
	for _, move := range moves {
		require.NoError(t, move.Finish())
	}
	begun := time.Now()
	f.awaitRuns(len(ids), goesOn)
	t.Logf("all have run %v after the slots have arrived", time.Since(begun))
	for user := range moves {
		require.Eventually(t, func() bool { return len(locks.keysOf(user)) == 0 }, soon, tick)
	}
	assert.ElementsMatch(t, ids, f.record.runs)
	assert.Zero(t, f.record.overlaps)
}

// The lock is released while its slot is half way, so that no task can be woken; none waits in a
// worker's slot, and none comes. The first one is passed over if it takes a second to come then, as
// on a busy machine.
func TestTasksInLineThatAreNotWokenWhileTheSlotIsHalfWay(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	queues, locks, cluster := locksOnACluster(t)
	release := hold(t, locks.keeper(), "u1")
	f := newFleet(queues, locks, 2, 8, time.Millisecond, asynqmw.InLine(queues.redis()),
		asynqmw.Wait(0))
	var ids []string
	for range 5 {
		ids = append(ids, f.enqueue("u1"))
		f.awaitParked(ids[len(ids)-1])
	}
	move, _ := beginMove(t, cluster, "u1")
	release()
	<-time.After(3 * time.Second) // longer than until the next look at the line
	require.NoError(t, move.Finish())
	f.awaitRuns(len(ids), goesOn)
	assert.ElementsMatch(t, ids, f.record.runs)
	isFirst := func(id string) bool { return id == ids[0] }
	assert.Equal(t, ids[1:], slices.DeleteFunc(slices.Clone(f.record.runs), isFirst))
	require.Eventually(t, func() bool { return len(locks.keysOf("u1")) == 0 }, soon, tick)
}

// A task that was woken comes while the slot is half way, so that the line does not hear of it, and
// gets the lock when the slot has arrived.
func TestTaskInLineThatComesWhileTheSlotIsHalfWay(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	queues, locks, cluster := locksOnACluster(t)
	release := hold(t, locks.keeper(), "u1")
	f := newFleet(queues, locks, 2, 8, time.Millisecond, asynqmw.InLine(queues.redis()),
		asynqmw.Wait(soon))
	waits := f.enqueue("u1")
	locks.awaitSlot("u1")
	woken := f.enqueue("u1")
	f.awaitParked(woken)
	from, err := cluster.Serving(redistest.Slot(leaseOf("u1")))
	require.NoError(t, err)
	require.NoError(t, from.Do("HSET", leaseOf("u1")+wokenSuffix, "default\n"+woken,
		strconv.FormatInt(time.Now().UnixMicro(), 10)).Error())
	move, _ := beginMove(t, cluster, "u1")
	require.NoError(t, move.Keys(leaseOf("u1")+tasksSuffix))
	require.NoError(t, f.inspector.RunTask("default", woken))
	f.awaitState(woken, asynq.TaskStateActive)
	<-time.After(500 * time.Millisecond) // for its requests
	require.NoError(t, move.Finish())
	release()
	f.awaitRuns(2, goesOn)
	assert.ElementsMatch(t, []string{waits, woken}, f.record.runs)
	require.Eventually(t, func() bool { return len(locks.keysOf("u1")) == 0 }, 5*time.Second, tick)
}

// The slot goes round the servers while tasks in line run.
func TestTasksInLineWhileTheSlotGoesRound(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	queues, locks, cluster := locksOnACluster(t)
	const tasks, rounds = 150, 4
	f := newFleet(queues, locks, 2, 20, 10*time.Millisecond, asynqmw.InLine(queues.redis()))
	var ids []string
	for range tasks {
		ids = append(ids, f.enqueue("u1"))
	}
	for i := range rounds {
		f.awaitRuns(10*(i+1), goesOn)
		move, _ := beginMove(t, cluster, "u1")
		pause := time.Duration(50*i) * time.Millisecond
		<-time.After(pause)
		require.NoError(t, move.Keys(leaseOf("u1")+[]string{"", tasksSuffix, slotSuffix}[i%3]))
		<-time.After(pause)
		require.NoError(t, move.Finish())
	}
	f.awaitRuns(tasks, soon)
	require.Eventually(t, func() bool { return len(locks.keysOf("u1")) == 0 }, soon, tick)
	assert.ElementsMatch(t, ids, f.record.runs)
	assert.Zero(t, f.record.overlaps)
	t.Logf("%d overtaken", f.record.overtaken())
}
