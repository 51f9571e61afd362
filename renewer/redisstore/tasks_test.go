package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	line "github.com/lockbeat/lockbeat/renewer/store"
)

const (
	tasksA = "lockbeat:{a}:tasks"
	slotA  = "lockbeat:{a}:slot"
	wokenA = "lockbeat:{a}:woken"
)

// ask is what arrive returns of a task that is to ask for the lock.
const ask = -1

// noTask is what an event has that tells of the lock alone.
var noTask contract.Task

var lockA = contract.Name{Text: "a"}

// task is one of queue q.
func task(id string) contract.Task { return contract.Task{Queue: "q", ID: id} }

// arrival is that of a task that may not wait in its slot.
func arrival(t contract.Task) contract.Arrival {
	return contract.Arrival{Name: lockA, Task: t, SlotTTL: 5 * time.Second}
}

func waiting(t contract.Task) contract.Arrival {
	a := arrival(t)
	a.Wait = true
	return a
}

func arrive(t *testing.T, s *redisstore.Engine, a contract.Arrival) int {
	t.Helper()
	arrived, err := s.Arrive(t.Context(), a)
	require.NoError(t, err)
	if arrived.Ask {
		assert.Equal(t, contract.Arrived{Ask: true, Wait: a.Wait, Since: arrived.Since}, arrived)
		return ask
	}
	return arrived.Ahead
}

func nextTask(
	t *testing.T, s *redisstore.Engine, what contract.TaskEvent, of contract.Task,
) contract.NextTask {
	t.Helper()
	n, err := s.Next(t.Context(), lockA, 0, what, of)
	require.NoError(t, err)
	return n
}

// wakes is the answer that has one of n tasks come.
func wakes(n int, t ...contract.Task) contract.NextTask {
	return contract.NextTask{Tasks: t, Parked: n}
}

func nobody(n int, late ...contract.Task) contract.NextTask {
	return contract.NextTask{Parked: n, Late: late}
}

// woken has tasks have been told to come some time ago. That is in the future
// where they are to be on their way however slow the machine is.
func (s server) woken(t *testing.T, ago time.Duration, of ...contract.Task) {
	t.Helper()
	for _, one := range of {
		s.ok(t, "HSET", wokenA, one.Queue+"\n"+one.ID,
			fmt.Sprint(time.Now().Add(-ago).UnixMicro()))
	}
}

func TestArriveScript(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	t.Log("free: it asks, and has the slot if it may wait")
	assert.Equal(t, ask, arrive(t, store, arrival(task("0"))))
	assert.Zero(t, s.number(t, "DBSIZE"))
	assert.Equal(t, ask, arrive(t, store, waiting(task("0"))))
	assert.Equal(t, "q\n0", s.get(t, slotA))
	s.pttl(t, slotA, 1, 5000)
	s.ok(t, "DEL", slotA)

	t.Log("held: one waits in its slot, and keeps it; the others go back, in order")
	mine(t, store, claim("a", "a", time.Hour))
	assert.Equal(t, ask, arrive(t, store, waiting(task("1"))))
	assert.Equal(t, ask, arrive(t, store, waiting(task("1"))))
	assert.Equal(t, 0, arrive(t, store, waiting(task("2"))))
	assert.Equal(t, 1, arrive(t, store, arrival(task("3"))))
	assert.Equal(t, 0, arrive(t, store, waiting(task("2"))), "its place is kept")
	s.pttl(t, tasksA, 10*minute, 15*minute)

	t.Log("one that goes back hears who has the lock")
	back, err := store.Arrive(t.Context(), waiting(task("2")))
	require.NoError(t, err)
	assert.Positive(t, back.HeldFor)
	assert.Positive(t, back.Since)
	back.HeldFor, back.Since = 0, 0
	assert.Equal(t, contract.Arrived{
		Holder: line.Holder{Node: "node-a", PID: 42, Operation: "test"},
	}, back)

	t.Log("a copy takes over its original's rank, and its slot")
	heir := waiting(task("2b"))
	heir.For = task("2")
	assert.Equal(t, 0, arrive(t, store, heir))
	assert.EqualValues(t, 2, s.number(t, "ZCARD", tasksA))
	heir = waiting(task("2"))
	heir.For = task("2b")
	assert.Equal(t, 0, arrive(t, store, heir))
	heir = waiting(task("1b"))
	heir.For = task("1")
	assert.Equal(t, ask, arrive(t, store, heir))
	assert.Equal(t, "q\n1b", s.get(t, slotA))
	heir = waiting(task("1"))
	heir.For = task("1b")
	assert.Equal(t, ask, arrive(t, store, heir))

	t.Log("the slot is free: for the first in line, not for a newcomer")
	s.ok(t, "DEL", slotA)
	assert.Equal(t, 2, arrive(t, store, waiting(task("5"))))
	assert.Equal(t, 0, arrive(t, store, arrival(task("2"))), "it may not wait")
	assert.Equal(t, ask, arrive(t, store, waiting(task("2"))))

	t.Log("the lock is free: the first in line asks, even if another has the slot")
	s.ok(t, "DEL", "lockbeat:{a}")
	s.ok(t, "SET", slotA, "q\ndead")
	s.ok(t, "ZREM", tasksA, "q\n2")
	back, err = store.Arrive(t.Context(), arrival(task("5")))
	require.NoError(t, err)
	assert.Equal(t, contract.Arrived{Ahead: 1, Since: back.Since}, back, "no owner has it")
	assert.Equal(t, ask, arrive(t, store, arrival(task("3"))))

	t.Log("a place never comes before that of an earlier task, even if the clock was set back")
	s.ok(t, "ZADD", tasksA, "8123456789012345", "q\nahead")
	mine(t, store, claim("a", "a", time.Hour))
	assert.Equal(t, 3, arrive(t, store, arrival(task("6"))))

	t.Log("a key of another type: an error")
	s.ok(t, "SET", "lockbeat:{b}:tasks", "x")
	b := arrival(task("1"))
	b.Name.Text = "b"
	mine(t, store, claim("b", "a", time.Hour))
	_, err = store.Arrive(t.Context(), b)
	require.ErrorContains(t, err, "WRONGTYPE")
	_, err = store.Arrive(t.Context(), contract.Arrival{Name: lockA, Task: task("1")})
	require.ErrorIs(t, err, renewer.ErrConfig)
}

func TestNextScript(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	t.Log("no line")
	assert.Equal(t, nobody(0), nextTask(t, store, contract.TasksOver, noTask))
	assert.Equal(t, nobody(0), nextTask(t, store, contract.TaskGranted, task("1")))
	assert.Zero(t, s.number(t, "DBSIZE"))

	t.Log("the first waits in its slot, and has the lock: the next one is woken")
	mine(t, store, claim("a", "a", time.Hour))
	require.Equal(t, ask, arrive(t, store, waiting(task("1"))))
	for i := range 5 {
		require.Equal(t, i, arrive(t, store, waiting(task(fmt.Sprint(i+2)))))
	}
	assert.Equal(t, nobody(5), nextTask(t, store, contract.TasksOver, task("0")))
	assert.Equal(t, wakes(5, task("2")), nextTask(t, store, contract.TaskGranted, task("1")))
	assert.Zero(t, s.number(t, "EXISTS", slotA))
	s.pttl(t, wokenA, 10*minute, 15*minute)
	s.woken(t, -time.Minute, task("2"))

	t.Log("while the lock is held and one is on its way, no other is woken")
	assert.Equal(t, nobody(5), nextTask(t, store, contract.TasksOver, task("0")))
	assert.Equal(t, nobody(5), nextTask(t, store, contract.TaskGranted, task("0")))

	t.Log("it does not come any more: the one behind it is")
	assert.Equal(t, wakes(4, task("3")), nextTask(t, store, contract.TaskGone, task("2")))
	s.woken(t, -time.Minute, task("3"))

	t.Log("the lock is idle: one more is woken, and no third")
	s.ok(t, "DEL", "lockbeat:{a}")
	assert.Equal(t, wakes(4, task("4")), nextTask(t, store, contract.TasksOver, noTask))
	s.woken(t, -time.Minute, task("4"))
	assert.Equal(t, nobody(4), nextTask(t, store, contract.TasksOver, task("0")))

	t.Log("the second comes first: it goes back, and is no longer on its way")
	assert.Equal(t, 1, arrive(t, store, arrival(task("4"))))
	assert.Equal(t, wakes(4, task("4")), nextTask(t, store, contract.TasksOver, noTask))

	t.Log("one left its slot: it has the first place, and none is woken while the lock is held")
	s.ok(t, "DEL", tasksA, wokenA)
	mine(t, store, claim("a", "b", time.Hour))
	require.Equal(t, ask, arrive(t, store, waiting(task("7"))))
	require.Equal(t, 0, arrive(t, store, waiting(task("8"))))
	assert.Equal(t, nobody(2), nextTask(t, store, contract.TaskLeft, task("7")))
	assert.Zero(t, s.number(t, "EXISTS", slotA))
	assert.Equal(t, nobody(2), nextTask(t, store, contract.TasksLook, noTask))
	assert.Equal(t, 0, arrive(t, store, arrival(task("7"))))

	t.Log("nor is its place a later one if it had an earlier one")
	assert.Equal(t, nobody(2), nextTask(t, store, contract.TaskLeft, task("8")))
	assert.Equal(t, 1, arrive(t, store, arrival(task("8"))))

	t.Log("at the release it is woken: of a holder that is no task, too")
	assert.Equal(t, wakes(2, task("7")), nextTask(t, store, contract.TasksOver, noTask))

	t.Log("the lock was released in the moment in which one left its slot: it is woken itself")
	s.ok(t, "DEL", wokenA, "lockbeat:{a}")
	assert.Equal(t, wakes(2, task("7")), nextTask(t, store, contract.TaskLeft, task("7")))
	s.ok(t, "DEL", wokenA)

	t.Log("one that went back behind others calls nobody: they would call each other without end")
	assert.Equal(t, nobody(2), nextTask(t, store, contract.TaskLeft, task("8")))
	assert.Equal(t, wakes(2, task("7")), nextTask(t, store, contract.TasksLook, noTask))
	s.woken(t, -time.Minute, task("7"))
	mine(t, store, claim("a", "c", time.Hour))

	t.Log("its queue did not have it, but it went back there meanwhile: it keeps its place")
	assert.Equal(t, nobody(2), nextTask(t, store, contract.TaskMissing, task("8")))
	t.Log("nor did it come: it is forgotten")
	assert.Equal(t, wakes(1, task("8")), nextTask(t, store, contract.TaskMissing, task("7")))

	t.Log("its queue did not have it, but it came meanwhile: it keeps its slot")
	require.Equal(t, ask, arrive(t, store, waiting(task("8"))))
	nextTask(t, store, contract.TaskMissing, task("8"))
	assert.Equal(t, "q\n8", s.get(t, slotA))

	t.Log("nothing is left when all have come")
	nextTask(t, store, contract.TaskGranted, task("7"))
	nextTask(t, store, contract.TaskGranted, task("8"))
	assert.Zero(t, s.number(t, "EXISTS", tasksA, slotA, wokenA))
}

// A woken task that has not come within a second is passed over, and its queue
// with it.
func TestTasksThatDontCome(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	mine(t, store, claim("a", "a", time.Hour))
	other := contract.Task{Queue: "other", ID: "1"}
	for i := range 150 {
		require.Equal(t, i, arrive(t, store, arrival(task(fmt.Sprint(i)))))
	}
	require.Equal(t, 150, arrive(t, store, arrival(other)))
	late := func(ago time.Duration, of ...contract.Task) { s.woken(t, ago, of...) }
	t.Log("it has some time left")
	late(150*time.Millisecond, task("0"))
	assert.Equal(t, 151, arrive(t, store, waiting(task("new"))))
	assert.Equal(t, nobody(152, task("0")),
		nextTask(t, store, contract.TasksOver, noTask))
	assert.Equal(t, nobody(152), nextTask(t, store, contract.TasksOver, task("x")), "no look")

	t.Log("it is late: the next one of its queue is tried")
	late(1500*time.Millisecond, task("0"))
	assert.Equal(t, wakes(152, task("1")), nextTask(t, store, contract.TasksOver, noTask))
	late(-time.Minute, task("1"))
	assert.Equal(t, 150, arrive(t, store, waiting(other)), "that one is on its way")

	t.Log("that is late too: the first of the other queue is, which is the first that moves")
	late(1100*time.Millisecond, task("1"))
	assert.Equal(t, wakes(152, other), nextTask(t, store, contract.TasksOver, noTask))
	assert.Equal(t, ask, arrive(t, store, waiting(other)))
	nextTask(t, store, contract.TaskGranted, other)

	t.Log("and after a while the first queue is tried again")
	late(2500*time.Millisecond, task("0"), task("1"))
	assert.Equal(t, wakes(151, task("2")), nextTask(t, store, contract.TasksOver, noTask))

	t.Log("one that comes late has its place still")
	assert.Equal(t, ask, arrive(t, store, waiting(task("0"))))

	t.Log("where no other is in line it is told again, as it may be gone, and no task waits for it")
	s.ok(t, "DEL", tasksA, slotA, wokenA)
	for i, one := range []contract.Task{task("0"), task("1")} {
		require.Equal(t, i, arrive(t, store, arrival(one)))
	}
	late(9*time.Second, task("0"), task("1"))
	assert.ElementsMatch(t, []contract.Task{task("0"), task("1")},
		nextTask(t, store, contract.TasksOver, contract.Task{}).Late)
	late(11*time.Second, task("0"), task("1"))
	assert.Equal(t, wakes(2, task("0")), nextTask(t, store, contract.TasksOver, noTask))
	assert.Len(t, nextTask(t, store, contract.TasksOver, contract.Task{}).Late, 2)

	t.Log("a look at a free lock has the next one told, and says who has not come")
	s.ok(t, "DEL", wokenA, "lockbeat:{a}")
	late(150*time.Millisecond, task("0"))
	next := wakes(2, task("1"))
	next.Late = []contract.Task{task("0")}
	assert.Equal(t, next, nextTask(t, store, contract.TasksLook, noTask))
	mine(t, store, claim("a", "a", time.Hour))

	t.Log("eight that are late are enough, and one that was just woken is not late")
	s.ok(t, "DEL", wokenA)
	late(-time.Minute, task("0")) // however slow the machine is
	for i := range 9 {
		late(150*time.Millisecond, task(fmt.Sprint("late", i)))
	}
	got := nextTask(t, store, contract.TasksOver, contract.Task{}).Late
	assert.Len(t, got, 8)
	assert.NotContains(t, got, task("0"))
	s.ok(t, "DEL", wokenA)
	late(11*time.Second, task("0"), task("1"))
	assert.Equal(t, ask, arrive(t, store, waiting(task("new"))))
	s.ok(t, "DEL", slotA)
	assert.Equal(t, wakes(1, task("1")), nextTask(t, store, contract.TaskGone, task("0")))
	assert.Equal(t, nobody(0), nextTask(t, store, contract.TaskGone, task("1")))
}

// Tasks of two databases of a job system may have the same queue and ID. They
// were one then, and were taken out of the line by processes of the other
// database, where they are not.
func TestTasksOfTwoHomes(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	mine(t, store, claim("a", "a", time.Hour))
	first, second := task("1"), task("1")
	first.Home, second.Home = "ONE", "TWO"
	for _, one := range []contract.Task{first, second, task("1")} {
		require.Equal(t, ask, arrive(t, store, waiting(one)), "each home has a slot")
		parked := one
		parked.ID = "2"
		require.Equal(t, 0, arrive(t, store, waiting(parked)), "and a line")
	}
	assert.EqualValues(t, 3, s.number(t, "EXISTS", tasksA, tasksA+":ONE", tasksA+":TWO"))
	next := func(what contract.TaskEvent, of contract.Task) contract.NextTask {
		return nextTask(t, store, what, of)
	}
	parked := first
	parked.ID = "2"
	assert.Equal(t, wakes(1, parked), next(contract.TaskGranted, first))
	assert.Equal(t, "q\n1", s.get(t, slotA+":TWO"), "which waits still")
	assert.Equal(t, nobody(0), next(contract.TaskMissing, parked))
	look := contract.Task{Home: second.Home}
	assert.Equal(t, nobody(1), next(contract.TasksOver, look))
	s.ok(t, "DEL", slotA+":TWO")
	parked.Home = second.Home
	assert.Equal(t, wakes(1, parked), next(contract.TasksOver, look))
	s.ok(t, "HSET", wokenA+":TWO", "q\n2",
		fmt.Sprint(time.Now().Add(-5*time.Second).UnixMicro()))
	assert.Equal(t, nobody(1, parked), next(contract.TasksOver, look))
}

// A member that only another program can have written, as it is too long for a
// task's, was sent whole to each process that looked at the line.
func TestHugeTasksAreNotSent(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	mine(t, store, claim("a", "a", time.Hour))
	huge := "q\n" + strings.Repeat("x", 10_000)
	s.ok(t, "ZADD", tasksA, "1", huge)
	s.ok(t, "HSET", wokenA, huge, "1")
	look := func() contract.NextTask {
		return nextTask(t, store, contract.TasksOver, contract.Task{})
	}
	assert.Equal(t, nobody(1), look())
	require.Equal(t, 1, arrive(t, store, arrival(task("1"))))
	s.ok(t, "DEL", wokenA)
	assert.Equal(t, wakes(2, task("1")), look())
}

// However many tasks of a queue that does not move stand first, those behind
// them are found, and the queue is tried again.
func TestManyTasksThatDontCome(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	mine(t, store, claim("a", "a", time.Hour))
	add := []string{"ZADD", tasksA}
	for i := range 3500 {
		add = append(add, fmt.Sprint(i), fmt.Sprintf("q\n%d", i))
	}
	s.ok(t, add...)
	other := func(i int) contract.Task {
		return contract.Task{Queue: "other", ID: fmt.Sprint(i)}
	}
	for i := range 3 {
		require.Equal(t, 3500+i, arrive(t, store, arrival(other(i))))
	}
	late := func(ago time.Duration) {
		for i := range 10 {
			s.ok(t, "HSET", wokenA, fmt.Sprintf("q\n%d", i),
				fmt.Sprint(time.Now().Add(-ago).UnixMicro()))
		}
	}
	late(1500 * time.Millisecond)
	assert.Equal(t, wakes(3503, other(0)), nextTask(t, store, contract.TasksOver, task("x")))
	late(1500 * time.Millisecond)
	assert.Equal(t, wakes(3502, other(1)), nextTask(t, store, contract.TaskGranted, other(0)))
	late(11 * time.Second)
	assert.Equal(t, wakes(3501, task("10")), nextTask(t, store, contract.TaskGranted, other(1)))
	t.Log("a queue that is tried again stands far behind")
	s.ok(t, "DEL", wokenA)
	require.Equal(t, 3501, arrive(t, store, arrival(other(3))))
	late(1500 * time.Millisecond)
	s.ok(t, "HSET", wokenA, "other\n2",
		fmt.Sprint(time.Now().Add(-1500*time.Millisecond).UnixMicro()))
	assert.Equal(t, wakes(3502, other(3)), nextTask(t, store, contract.TasksOver, task("x")))

	t.Log("the others have gone")
	s.ok(t, "DEL", tasksA, wokenA)
	s.ok(t, "HSET", wokenA, "from", "3004")
	for i := range 3 {
		require.Equal(t, i, arrive(t, store, arrival(other(i))))
	}
	assert.Equal(t, wakes(2, other(1)), nextTask(t, store, contract.TaskGranted, other(0)))
	assert.Equal(t, wakes(1, other(2)), nextTask(t, store, contract.TaskGranted, other(1)))
	nextTask(t, store, contract.TaskGone, other(2))
	assert.Zero(t, s.number(t, "EXISTS", tasksA, wokenA), "nothing is left")
}
