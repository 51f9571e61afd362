package renewer_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
)

const none = -1

func expectQueue(
	t *testing.T, q *renewer.Queues, name string, head, holder int, waiting ...int,
) {
	t.Helper()
	gotHead, gotHolder, gotWaiting := q.Look(name)
	require.Equal(t, head, gotHead, "head")
	require.Equal(t, holder, gotHolder, "holder")
	require.Equal(t, waiting, gotWaiting, "waiting")
}

func TestAQueueIsInOrderOfArrival(t *testing.T) {
	t.Parallel()
	q := renewer.NewQueues()
	require.True(t, q.Join("a", 0, false))
	require.False(t, q.Join("a", 1, false))
	require.False(t, q.Join("a", 2, true))
	require.False(t, q.Join("a", 3, false))
	require.True(t, q.Join("b", 9, false), "names have nothing to do with each other")
	expectQueue(t, q, "a", 0, none, 1, 2, 3)

	q.Grant(0)
	expectQueue(t, q, "a", none, 0, 1, 2, 3)
	assert.Equal(t, []int{2}, q.Tries("a"))
	assert.Equal(t, 1, q.HandOver("a"))
	expectQueue(t, q, "a", none, 1, 3)
	assert.Equal(t, none, q.Leave(0), "it is not at the front any more")
	expectQueue(t, q, "a", none, 1, 3)
	assert.Equal(t, 3, q.Leave(1))
	expectQueue(t, q, "a", 3, none)
	assert.Equal(t, none, q.Leave(3))
	assert.Equal(t, none, q.Leave(9))
	assert.True(t, q.Empty())
}

// Whatever callers do, in whatever order, those who wait have a head or a holder before them, and
// the order is that of a list.
func TestQueuesAreListsWithAFront(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 0))
		q := renewer.NewQueues()
		head, holder := none, none
		var list []int
		for caller := range 200 {
			expectQueue(t, q, "a", head, holder, list...)
			if head == none && holder == none {
				require.Empty(t, list)
				require.True(t, q.Empty())
			}
			switch dice.IntN(7) {
			default: // come
				if first := q.Join("a", caller, false); first {
					require.True(t, head == none && holder == none)
					head = caller
				} else {
					list = append(list, caller)
				}
			case 3: // have the lock
				if head != none {
					q.Grant(head)
					head, holder = none, head
				}
			case 4: // leave the front
				front := max(head, holder)
				if front == none {
					continue
				}
				head, holder = q.Leave(front), none
				if len(list) > 0 {
					require.Equal(t, list[0], head)
					list = list[1:]
				}
			case 5: // hand the lock on
				if holder != none && len(list) > 0 {
					holder = q.HandOver("a")
					require.Equal(t, list[0], holder)
					list = list[1:]
				}
			case 6: // step out
				if len(list) > 0 {
					i := dice.IntN(len(list))
					q.StepOut(list[i])
					list = slices.Delete(list, i, i+1)
				}
			}
			if len(list) == 0 {
				list = nil
			}
		}
	}
}
