package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	line "github.com/lockbeat/lockbeat/renewer/store"
)

// Of a limit as many tasks are told to ask, and to come, as slots are free, and
// one waits in its worker's slot.
func TestTasksOfALimit(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	name := contract.Name{Text: "a", Limit: true}
	slots := func(owners ...string) {
		for _, letter := range owners {
			c := claim("a", letter, time.Hour)
			c.Limit = 3
			mine(t, store, c)
		}
	}
	arrive := func(id string, wait bool) contract.Arrived {
		t.Helper()
		got, err := store.Arrive(t.Context(), contract.Arrival{
			Name: name, Limit: 3, Task: task(id), Wait: wait, SlotTTL: 5 * time.Second,
		})
		require.NoError(t, err)
		return got
	}
	next := func(limit int, what contract.TaskEvent, id string) contract.NextTask {
		t.Helper()
		of := contract.Task{}
		if id != "" {
			of = task(id)
		}
		got, err := store.Next(t.Context(), name, limit, what, of)
		require.NoError(t, err)
		return got
	}
	t.Log("two are free: two ask, and one of them may wait")
	slots("a")
	assert.Equal(t, contract.Arrived{Ask: true, Wait: true}, arrive("1", true))
	assert.Equal(t, contract.Arrived{Ask: true}, arrive("2", true))

	t.Log("it is full: those who come go back, and hear who has the first slot")
	slots("b", "c")
	for i := range 6 {
		got := arrive(fmt.Sprint(i+3), true)
		assert.Positive(t, got.Since)
		assert.Positive(t, got.HeldFor)
		got.Since, got.HeldFor = 0, 0
		assert.Equal(t, contract.Arrived{
			Ahead: i, Held: 3, Holder: line.Holder{Node: "node-a", PID: 42, Operation: "test"},
		}, got)
	}
	assert.Equal(t, nobody(6), next(3, contract.TasksOver, ""), "one waits")
	assert.Equal(t, wakes(6, task("3")), next(3, contract.TaskGranted, "1"))

	t.Log("two are free: they and one more come, and no others")
	s.ok(t, "ZREM", "lockbeat:{a}:slots", owner("a"), owner("b"))
	assert.Equal(t, wakes(6, task("4"), task("5")), next(3, contract.TasksOver, ""))
	assert.Empty(t, next(3, contract.TasksOver, "").Tasks)
	assert.True(t, arrive("4", true).Ask, "as two are free, one before it is not in its way")
	assert.False(t, arrive("5", true).Ask)
	assert.True(t, arrive("3", true).Ask)

	t.Log("a higher number has more come, but for those that ask already; a lower one none")
	assert.Equal(t, wakes(6, task("5"), task("6"), task("7"), task("8")),
		next(5, contract.TasksOver, "0"))
	s.ok(t, "DEL", "lockbeat:{a}:slots:woken", "lockbeat:{a}:slots:slot")
	assert.Empty(t, next(0, contract.TasksLook, "").Tasks)
	t.Log("slots that have lapsed are free")
	s.ok(t, "ZADD", "lockbeat:{a}:slots", "1", owner("c"))
	assert.Len(t, next(3, contract.TasksLook, "").Tasks, 4)
}

// The place of a task that goes from one line to another is as old there, and
// it keeps no place in the one that it left, for which nobody comes.
func TestTasksThatGoFromLineToLine(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	mine(t, store, claim("a", "a", time.Hour))
	mine(t, store, claim("b", "b", time.Hour))
	require.Equal(t, 0, arrive(t, store, arrival(task("1"))))
	in := func(lock, id string, since int64, look bool) contract.Arrived {
		t.Helper()
		a := arrival(task(id))
		a.Name.Text, a.Since, a.Look = lock, since, look
		got, err := store.Arrive(t.Context(), a)
		require.NoError(t, err)
		return got
	}
	first := in("a", "1", 0, true).Since
	assert.Positive(t, first)
	assert.Equal(t, contract.Arrived{Ask: true}, in("b", "1", 0, true), "none there")
	assert.Zero(t, in("b", "2", 0, false).Ahead)
	got := in("b", "1", first, false)
	assert.Zero(t, got.Ahead, "before one that came to this line sooner")
	assert.Equal(t, first, got.Since)
	assert.Equal(t, 1, in("b", "2", 0, false).Ahead)

	require.Equal(t, 1, arrive(t, store, arrival(task("3"))))
	s.ok(t, "DEL", "lockbeat:{a}")
	assert.Equal(t, nobody(1), nextTask(t, store, contract.TaskMoved, task("1")))
	assert.Equal(t, wakes(1, task("3")), nextTask(t, store, contract.TasksOver, noTask))
}
