package desk

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Of a limit each who has a slot makes way for the next, and who comes while
// nobody waits asks aside, unless the store may be away.
func TestASlotMakesWay(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	require.Equal(t, Aside, m.Join(nameA, 1, Wish{Limit: true}).Turn)
	require.Zero(t, m.Names())
	require.Equal(t, Ask, m.join(1, Wish{Limit: true, Refused: true, Inside: true}))
	require.Equal(t, Wait, m.join(2, Wish{Limit: true}))
	require.Equal(t, 2, m.Inside())
	m.Granted(nameA, 1, true, 0, 1)
	m.come(false)
	require.Equal(t, 2, m.front)
	require.Equal(t, 1, m.Waiting(nameA, 1))
	require.Equal(t, Ask, m.Join(nameB, 3, Wish{Limit: true, Trouble: true}).Turn)
}

// The front asks for those behind it: for one, and for more and more as long as
// all are granted.
func TestTheFrontAsksForThoseBehindIt(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	m.join(1, Wish{Limit: true, Trouble: true})
	for caller := 2; caller <= 9; caller++ {
		m.join(caller, Wish{Limit: true})
	}
	require.Empty(t, m.Also(nameA, 2), "it is not at the front")
	give := func(n int) {
		t.Helper()
		also := m.Also(nameA, m.front)
		require.Len(t, also, n)
		for _, w := range also {
			require.True(t, m.Give(w))
			require.False(t, m.Give(w), "it waits no more")
			require.True(t, w.Handed)
			w.Tell()
			m.Out()
		}
		m.line = m.line[n:]
		m.Gave(nameA, n, true, false)
	}
	give(1)
	give(3)
	m.check()
	assert.Len(t, m.Also(nameA, 1), 4, "those who are left")
	require.Equal(t, Ask, m.Join(nameB, 1, Wish{Limit: true, Trouble: true}).Turn)
	require.Equal(t, Wait, m.Join(nameB, 2, Wish{Limit: true}).Turn)
	assert.Empty(t, m.Also(nameB, 1), "it is one to whom no lease may go")
	m.StepOut(m.lines.of(nameB)[nameB.Text].first)
	m.Leave(nameB, 1)
	m.Out()
	m.Out()

	_, _, asked := m.TakeOver(nameA, 1)
	assert.False(t, asked)
	refused := Seen{Known: true, Held: 5}
	m.Gave(nameA, 0, false, true)
	m.Refused(nameA, 1, Answer{Seen: refused, Place: Place{Number: 7}, Queued: true})
	m.Granted(nameA, 1, true, 0, 1)
	m.come(false)
	_, _, asked = m.TakeOver(nameA, 1)
	assert.False(t, asked, "it has left")
	seen, place, asked := m.TakeOver(nameA, m.front)
	assert.True(t, asked, "the one before has asked for it, in vain")
	assert.Equal(t, refused, seen)
	assert.Equal(t, uint64(7), place.Number, "from its place")
	_, _, asked = m.TakeOver(nameA, m.front)
	assert.False(t, asked, "once")
	assert.Len(t, m.Also(nameA, m.front), 1)
	m.Granted(nameA, m.front, true, 0, 2)
	m.come(false)
	assert.Equal(t, Last[int]{Seen: refused}, m.Last(nameA), "no answer, but who had them lately")
	assert.NotEqual(t, uint64(7), m.place(nameA, 0, 2), "a grant uses it up")
}

// Of those of whom none but the newest is to wait the last to come, or that of
// the greatest rank, is the newest.
func TestTheNewest(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	old, next, late := NewNewest(), NewNewest(), NewNewest()
	require.Equal(t, Ask, m.join(1, Wish{Rank: 5}))
	require.Equal(t, Wait, m.join(2, Wish{Rank: 3, Newest: old, Now: 10}), "it does not have it yet")
	m.Granted(nameA, 1, false, 0, 1)
	m.holds = true
	require.Equal(t, Outranked, m.Join(nameA, 9, Wish{Rank: 4, Newest: late}).Turn)
	require.False(t, m.Ousted(old))
	m.Heard(old, 15)
	require.Equal(t, Wait, m.join(3, Wish{Rank: 6, Newest: next, Now: 12}))
	assert.True(t, m.Ousted(old))
	assert.Len(t, old.Nudge, 1)
	assert.EqualValues(t, 10, m.Made(old))
	assert.EqualValues(t, 15, m.Made(next), "the store may take the older one to be of then")
	require.Equal(t, Outranked, m.Join(nameA, 9, Wish{Rank: 5, Newest: late}).Turn)
	assert.Equal(t, old.Asking(), next.Asking(), "one asks at a time")
	m.Nudge(nameA)
	m.Nudge(nameB)
	assert.Len(t, next.Nudge, 1)
	m.Heard(old, 20)
	assert.EqualValues(t, 20, m.Made(next))
	m.Forget(nameA, old)
	m.Forget(nameA, next)
	m.Forget(nameA, next)
	m.GivesBack(nameA, 1)
	require.Equal(t, Outranked, m.Join(nameA, 9, Wish{Rank: 4, Newest: late}).Turn, "it had it")
	m.Leave(nameA, 1)
	m.come(false)
	require.Equal(t, Wait, m.join(4, Wish{Rank: 1, Newest: late, Now: 13}))
	assert.EqualValues(t, 13, m.Made(late), "those before are forgotten")
	assert.False(t, m.Ousted(late))
}

// A desk that drains takes those who hold another name, until nobody is inside.
func TestClosing(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	m.join(1, Wish{})
	assert.False(t, m.Out(), "it is open")
	m.Leave(nameA, 1)
	m.come(false)
	m.join(1, Wish{})
	m.Drain()
	require.Equal(t, Closed, m.join(2, Wish{}))
	require.Equal(t, Wait, m.join(3, Wish{Nested: true}))
	require.False(t, m.CloseIfEmpty())
	require.Equal(t, Wait, m.join(4, Wish{Nested: true}), "it has not closed")
	for range 2 {
		require.False(t, m.Out())
	}
	require.True(t, m.Out())
	require.True(t, m.CloseIfEmpty())
	require.Equal(t, Closed, m.join(5, Wish{Nested: true}))

	m = newModel(t)
	m.join(1, Wish{})
	m.Close()
	require.Equal(t, Closed, m.join(2, Wish{Nested: true}))
	m.Drain()
	require.Equal(t, Closed, m.join(2, Wish{Nested: true}), "it opens no more")
}

// One at the front may go on as another.
func TestSwap(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	m.join(1, Wish{Rank: 4})
	m.join(2, Wish{})
	m.Swap(nameA, 2, 7)
	m.Swap(nameB, 0, 7)
	assert.Equal(t, []int{1}, m.AskAtFronts())
	m.Swap(nameA, 1, 7)
	assert.Equal(t, []int{7}, m.AskAtFronts())
	m.Granted(nameA, 7, false, 0, 1)
	assert.Empty(t, m.AskAtFronts())
	assert.Equal(t, 7, m.Last(nameA).Has)
	assert.Equal(t, Outranked, m.Join(nameA, 3, Wish{Rank: 3, Newest: NewNewest()}).Turn)
	assert.Equal(t, 1, m.InLine(nameA))
	assert.Zero(t, m.InLine(nameB))
	assert.True(t, m.FirstTime(nameA))
	assert.False(t, m.FirstTime(nameA))
}
