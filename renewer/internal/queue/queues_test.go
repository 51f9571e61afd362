package queue_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/queue"
)

const none = 0

var a, b = contract.Name{Text: "a"}, contract.Name{Text: "b"}

// queues are those of callers who are told apart by numbers, from 1 on.
type queues struct {
	queue.Queues[int]

	waiters map[int]*queue.Waiter[int]
}

func newQueues() *queues { return &queues{queue.New[int](), map[int]*queue.Waiter[int]{}} }

// add has a caller join a name's queue, and reports whether it is at the front.
func (q *queues) add(name contract.Name, caller int, try bool) bool {
	if q.Join(name, caller) {
		return true
	}
	q.waiters[caller] = &queue.Waiter[int]{L: caller, Try: try}
	q.Need(name).Push(q.waiters[caller])
	return false
}

// leave has a caller leave the front of "a", and returns who is there then.
func (q *queues) leave(caller int) int {
	if next, _ := q.Leave(a, caller); next != nil {
		return next.L
	}
	return none
}

func (q *queues) expect(t *testing.T, front int, waiting ...int) {
	t.Helper()
	require.Equal(t, front, q.Front(a), "front")
	var got []int
	for caller := 1; caller < 1000 && len(got) < len(waiting); caller++ { // by taking nothing out
		if w := q.waiters[caller]; w != nil && w.Queued() {
			got = append(got, caller)
		}
	}
	if q.Of(a) == nil {
		require.Empty(t, waiting)
		return
	}
	require.Equal(t, len(waiting), q.Of(a).Len())
	if len(waiting) > 0 {
		require.Equal(t, waiting[0], q.Of(a).First().L)
	}
	require.True(t, slices.Equal(waiting, got), "%v wait, not %v, who came in this order", got, waiting)
}

func (q *queues) requireEmpty(t *testing.T) {
	t.Helper()
	require.Zero(t, q.Names())
	require.Nil(t, q.Of(a))
}

func TestAQueueIsInOrderOfArrival(t *testing.T) {
	t.Parallel()
	q := newQueues()
	require.True(t, q.add(a, 1, false))
	require.False(t, q.add(a, 2, false))
	require.False(t, q.add(a, 3, true))
	require.False(t, q.add(a, 4, false))
	require.True(t, q.add(b, 9, false), "names have nothing to do with each other")
	q.expect(t, 1, 2, 3, 4)

	refused, unwatch := q.Grant(a, 1)
	unwatch()
	require.Len(t, refused, 1)
	assert.Equal(t, 3, refused[0].L, "it does not wait until the lock is free")
	w := q.HandOver(a)
	assert.True(t, w.Handed)
	assert.Equal(t, 1, w.After)
	q.expect(t, 2, 4)
	assert.Equal(t, none, q.leave(1), "it is not at the front any more")
	q.expect(t, 2, 4)
	assert.Equal(t, 4, q.leave(2))
	q.expect(t, 4)
	assert.Equal(t, none, q.leave(4))
	assert.Equal(t, none, q.leave(9))
	assert.Equal(t, 9, q.Front(b))
	require.Nil(t, q.Of(a))
}

// Whatever callers do, in whatever order, those who wait have a front before them, and the order is
// that of a list.
func TestQueuesAreListsWithAFront(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		dice := rand.New(rand.NewPCG(seed, 0))
		q := newQueues()
		front := none
		var list []int
		for caller := 1; caller <= 200; caller++ {
			q.expect(t, front, list...)
			if front == none {
				require.Empty(t, list)
				q.requireEmpty(t)
			}
			switch dice.IntN(6) {
			default: // one more
				if q.add(a, caller, false) {
					require.Equal(t, none, front)
					front = caller
				} else {
					list = append(list, caller)
				}
			case 3: // leave the front
				if front == none {
					continue
				}
				front = q.leave(front)
				if len(list) > 0 {
					require.Equal(t, list[0], front)
					list = list[1:]
				}
			case 4: // hand the lock on
				if len(list) > 0 {
					front = q.HandOver(a).L
					require.Equal(t, list[0], front)
					list = list[1:]
				}
			case 5: // step out
				if len(list) > 0 {
					i := dice.IntN(len(list))
					q.Of(a).Remove(q.waiters[list[i]])
					list = slices.Delete(list, i, i+1)
				}
			}
		}
	}
}

// One who looks at a queue goes on behind the waiter where it stopped, though that has left, and
// others have come and gone.
func TestAQueueIsLookedAtWhileWaitersLeave(t *testing.T) {
	t.Parallel()
	q := newQueues()
	for caller := 1; caller <= 6; caller++ {
		q.add(a, caller, false)
	}
	of := q.Of(a)
	at := of.After(q.waiters[2])
	require.Equal(t, 3, at.L)
	of.Remove(at)
	of.Remove(q.waiters[2])
	of.Remove(q.waiters[4])
	require.Equal(t, 5, of.After(at).L)
	q.add(a, 7, false)
	of.Remove(q.waiters[6])
	require.Equal(t, 7, of.After(q.waiters[6]).L)
	require.Nil(t, of.After(q.waiters[7]))
	of.Remove(q.waiters[7])
	require.Nil(t, of.After(q.waiters[7]))
}
