package desk

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

var nameA, nameB = contract.Name{Text: "a"}, contract.Name{Text: "b"}

// model is a desk beside a list of who is where, of one name. Callers are
// numbers, from 1 on.
type model struct {
	*testing.T
	*Desk[int]

	front   int // 0 for none
	holds   bool
	line    []int
	waiters map[int]*Waiter[int]
}

func newModel(t *testing.T) *model {
	t.Helper()
	return &model{T: t, Desk: New[int](), waiters: make(map[int]*Waiter[int])}
}

func (m *model) join(caller int, w Wish) Turn {
	w.Plain = true
	s := m.Join(nameA, caller, w)
	switch s.Turn {
	case Ask:
		require.Zero(m, m.front)
		m.front, m.holds = caller, false
	case Wait:
		require.NotZero(m, m.front)
		m.line = append(m.line, caller)
		m.waiters[caller] = s.Waiter
	}
	return s.Turn
}

// place is Place of one who stands in line.
func (m *model) place(name contract.Name, own uint64, now timing.Instant) uint64 {
	place, left, inLine := m.Place(name, Place{Number: own}, now, true)
	require.Zero(m, left)
	require.Equal(m, m.InLine(name), inLine)
	none, _, _ := m.Place(name, Place{Number: own}, now, false)
	require.Zero(m, none)
	return place.Number
}

// come has the first in line come to the front, where it is told, or the name
// is forgotten.
func (m *model) come(holds bool) {
	m.front = 0
	if len(m.line) == 0 {
		return
	}
	m.front, m.holds = m.line[0], holds
	m.line = m.line[1:]
	select {
	case why := <-m.waiters[m.front].Answer:
		require.Nil(m, why)
	default:
		require.Fail(m, "it is not told", "%d", m.front)
	}
	require.Equal(m, holds, m.waiters[m.front].Handed)
}

func (m *model) check() {
	require.Equal(m, min(m.front, 1), m.Names())
	require.Equal(m, m.front, m.fronts.of(nameA)[nameA.Text].l)
	var line []int
	if q := m.lines.of(nameA)[nameA.Text]; q != nil {
		for w := q.first; w != nil; w = w.next {
			line = append(line, w.L)
		}
		require.Len(m, line, q.length)
	}
	require.True(m, slices.Equal(m.line, line), "%v wait, not %v", line, m.line)
	n := len(line)
	if m.front != 0 && !m.holds {
		n++
	}
	require.Equal(m, n, m.Inside(), "inside are those who have not got the name yet")
	require.Len(m, m.Asking(1000), n)
}

// Whatever callers do, in whatever order, those who wait have a front before
// them that is told, in order of arrival, and each is counted in until it has
// the name or has gone.
func TestADeskIsAListWithAFront(t *testing.T) {
	t.Parallel()
	for seed := range suite.Size[uint64](60, 200) {
		dice := rand.New(rand.NewPCG(seed, 0))
		m := newModel(t)
		for caller := 1; caller <= 200; caller++ {
			m.check()
			switch dice.IntN(8) {
			default: // one more
				m.join(caller, Wish{})
			case 4: // what the store answers
				if m.front != 0 && !m.holds && dice.IntN(2) == 0 {
					m.Granted(nameA, m.front, false, 0, 1)
					m.holds = true
				} else if m.front != 0 && !m.holds {
					if w := m.Refused(nameA, m.front, Answer{Seen: Seen{Known: true}}); w != nil {
						m.Began(w, func() {})
					}
				}
			case 5: // the front leaves
				if m.front != 0 {
					if !m.holds {
						m.Out()
					} else {
						m.GivesBack(nameA, m.front)
					}
					m.Leave(nameA, m.front)
					m.come(false)
				}
				if m.front != 0 && !m.holds && m.waiters[m.front] != nil && dice.IntN(3) == 0 {
					// who has come there leaves in the same moment
					require.False(t, m.StepOut(m.waiters[m.front]).Handed)
					m.Out()
					m.come(false)
				}
			case 6: // or hands the name on
				w, _ := m.HandOver(nameA, m.front)
				require.Equal(t, m.holds && m.front != 0 && len(m.line) > 0, w != nil)
				if w == nil {
					continue
				}
				w.Tell()
				m.Out() // it has its lease
				m.come(true)
				if dice.IntN(2) == 0 { // or leaves in the same moment
					require.True(t, m.StepOut(w).Handed)
					require.Equal(t, w.L, m.fronts.of(nameA)[nameA.Text].l, "its caller frees what it was handed")
				}
			case 7: // one steps out, or is late
				if len(m.line) > 0 {
					i := dice.IntN(len(m.line))
					out := m.StepOut(m.waiters[m.line[i]])
					require.False(t, out.Handed)
					m.Out()
					m.line = slices.Delete(m.line, i, i+1)
				}
			}
			// who is not there changes nothing
			m.Leave(nameA, 1000)
			m.GivesBack(nameA, 1000)
			w, _ := m.HandOver(nameA, 1000)
			require.Nil(t, w)
			m.inside++
			require.Zero(t, m.Granted(nameA, 1000, false, 0, 1).Left.Place)
			require.Equal(t, m.front != 0 && m.holds, m.fronts.of(nameA)[nameA.Text].has == holds)
		}
	}
}

// What one hears who does not wait: nothing before the store has answered, nor
// while the name may be free in a moment.
func TestWhoDoesNotWaitIsTold(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	require.Equal(t, Ask, m.join(1, Wish{}))
	require.Equal(t, Wait, m.join(2, Wish{Try: true}), "the front has not heard yet")
	require.Nil(t, m.Refused(nameA, 7, Answer{}), "it is not at the front")
	w := m.Refused(nameA, 1, Answer{Seen: Seen{Known: true, Held: 3}, Place: Place{Number: 9}, Queued: true})
	require.NotNil(t, w)
	assert.Equal(t, 3, (<-m.waiters[2].Answer).Held)
	s := m.Join(nameA, 3, Wish{Try: true})
	assert.Equal(t, Taken, s.Turn)
	assert.Equal(t, 3, s.Last.Seen.Held)
	stopped := false
	m.Began(w, func() { stopped = true })

	require.Equal(t, Wait, m.Join(nameA, 8, Wish{}).Turn)
	g := m.Granted(nameA, 1, false, 0, 1)
	require.Empty(t, g.Refused)
	none, _ := m.HandOver(nameA, 1)
	require.Nil(t, none, "it is not one to whom a lease may go")
	m.StepOut(m.lines.of(nameA)[nameA.Text].first)
	assert.False(t, stopped)
	m.GivesBack(nameA, 1)
	m.Leave(nameA, 1).End()
	assert.True(t, stopped, "nobody waits any more")

	m.Join(nameA, 1, Wish{})
	require.Equal(t, Wait, m.Join(nameA, 8, Wish{Try: true}).Turn)
	require.Len(t, m.Granted(nameA, 1, false, 0, 1).Refused, 1)
	assert.Equal(t, Last[int]{Known: true, Has: 1}, m.Join(nameA, 4, Wish{Try: true}).Last)
	m.GivesBack(nameA, 1)
	m.line = nil
	require.Equal(t, Wait, m.join(5, Wish{Try: true}), "it may be free in a moment")
	require.Equal(t, Full, m.Join(nameA, 6, Wish{Most: 1}).Turn)
	require.Equal(t, Away, m.Join(nameA, 6, Wish{Away: true}).Turn)
	require.Equal(t, Behind, m.Join(nameA, 6, Wish{Front: true}).Turn)
	m.Leave(nameA, 1)
	m.come(false)
	require.Equal(t, 5, m.front)
}

// A place outlives the one who asked from it, and is given up with the last.
func TestAPlaceOutlivesTheOneWhoAskedFromIt(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	m.join(1, Wish{})
	place := m.place(nameA, 0, 1)
	require.NotZero(t, place, "the first tells the store that places are wanted")
	m.join(2, Wish{})
	require.Equal(t, place, m.place(nameA, place, 1))
	require.Zero(t, m.GiveUp(nameA, 1, Place{Number: place}, 5).Place, "the next goes on from it")
	m.come(false)
	require.Equal(t, place, m.place(nameA, 0, 2))
	m.join(3, Wish{})
	assert.Equal(t, Granted[int]{Waited: true, Unsettled: 5}, m.Granted(nameA, 2, false, place, 2))
	m.GivesBack(nameA, 2)
	m.Leave(nameA, 2)
	m.come(false)
	next := m.place(nameA, 0, 3)
	require.NotEqual(t, place, next, "a grant uses it up")
	assert.Equal(t, next, m.GiveUp(nameA, 3, Place{Number: next}, 6).Place.Number)
	assert.Zero(t, m.place(nameB, 0, 3), "nobody waits for it, nor did lately")
}

// A place whose grant was heard is used up, also if the one who heard of it
// leaves without the lock: nobody goes on from there, and nothing of it is left
// to be given up. What a front before has asked from it is told once.
func TestAPlaceWhoseGrantWasHeardIsUsedUp(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	m.join(1, Wish{})
	assert.Zero(t, m.Told(nameA, 1), "nobody waits, and there is no place")
	m.join(2, Wish{})
	m.join(3, Wish{})
	place := m.place(nameA, 0, 1)
	require.Zero(t, m.GiveUp(nameA, 1, Place{Number: place}, 5).Place)
	m.come(false)
	m.Refused(nameA, 2, Answer{Seen: Seen{Known: true}, Place: Place{Number: place}, Queued: true})
	assert.Zero(t, m.Told(nameA, 3), "it is not at the front")
	require.Equal(t, place, m.place(nameA, 0, 2))
	assert.EqualValues(t, 5, m.Told(nameA, 2))
	assert.Zero(t, m.Told(nameA, 2), "once")
	require.Zero(t, m.Leave(nameA, 2))
	m.come(false)
	assert.NotEqual(t, place, m.place(nameA, 0, 3))
	m.Told(nameA, 3)
	assert.Zero(t, m.Leave(nameA, 3), "the store has none in its line")
}

// Whose claim is to be sent when its turn comes does not go on from a place
// whose claim is granted, nor the other way round: that is given up.
func TestNoPlaceOfTheOtherKind(t *testing.T) {
	t.Parallel()
	for _, asks := range []bool{false, true} {
		m := newModel(t)
		m.join(1, Wish{})
		m.join(2, Wish{})
		first, _, _ := m.Place(nameA, Place{Asks: asks}, 1, true)
		require.Zero(t, m.GiveUp(nameA, 1, first, 5).Place)
		m.come(false)
		next, left, _ := m.Place(nameA, Place{Asks: !asks}, 2, true)
		assert.NotEqual(t, first.Number, next.Number)
		assert.Equal(t, Left{Place: first, Unsettled: 5}, left)
		again, left, _ := m.Place(nameA, next, 3, true)
		assert.Equal(t, next, again)
		assert.Zero(t, left)
		assert.Zero(t, m.Leave(nameA, 2).Place, "it has not been asked from yet")
	}
}

// The store has a place in its line, and keeps it, until it has answered that
// it has not.
func TestWhatTheStoreHasInItsLine(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	away := Seen{Known: true, Err: assert.AnError}
	for _, c := range []struct {
		answers []Answer
		has     uint64
	}{
		{[]Answer{{Seen: Seen{Known: true}, Place: Place{Number: 4}}}, 0},
		{[]Answer{{Seen: Seen{Known: true}, Place: Place{Number: 4}, Queued: true}}, 4},
		{[]Answer{{Seen: Seen{Known: true}, Place: Place{Number: 4}, Queued: true}, {Seen: away, Place: Place{Number: 4}}}, 4},
		{[]Answer{
			{Seen: Seen{Known: true}, Place: Place{Number: 4}, Queued: true}, {Seen: Seen{Known: true}, Place: Place{Number: 4}},
		}, 0},
	} {
		m.Join(nameA, 1, Wish{})
		for _, answer := range c.answers {
			m.Refused(nameA, 1, answer)
		}
		assert.Equal(t, c.has, m.Leave(nameA, 1).Place.Number)
		m.Join(nameA, 1, Wish{})
		m.Join(nameA, 2, Wish{})
		m.Join(nameA, 3, Wish{})
		m.GiveUp(nameA, 1, Place{Number: 9}, 7)
		assert.EqualValues(t, 7, m.Granted(nameA, 2, false, 9, 1).Unsettled)
		m.Leave(nameA, 2)
		assert.Zero(t, m.Granted(nameA, 3, false, 0, 1).Unsettled, "it is the lease's that was granted")
		m.Leave(nameA, 3)
	}
}

// One watch serves all who come to the front, until nobody waits.
func TestOneWatchForAllWhoComeToTheFront(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	m.join(1, Wish{})
	m.join(2, Wish{})
	m.join(3, Wish{})
	refused := func(caller int) *Watch { return m.Refused(nameA, caller, Answer{Seen: Seen{Known: true}}) }
	w := refused(1)
	require.Nil(t, refused(1), "it is being begun")
	m.Began(w, nil)
	require.Same(t, w, refused(1), "it has not begun")
	stops := 0
	m.Began(w, func() { stops++ })
	require.Nil(t, refused(1))

	wake, until := m.Listen(nameA)
	require.Zero(t, until)
	w.Wake()
	w.Wake()
	m.place(nameA, 0, 1)
	assert.Empty(t, wake, "the question that comes now answers them")
	m.WasFalse(nameA, false, 10)
	_, until = m.Listen(nameA)
	require.Zero(t, until, "each watch begins with one")
	for pause := firstFalsePause; pause < lastFalsePause; pause *= 2 {
		m.WasFalse(nameA, false, 10)
		_, until = m.Listen(nameA)
		require.Equal(t, pause, time.Duration(until)-10)
	}
	m.WasFalse(nameA, true, 10)
	_, until = m.Listen(nameA)
	require.Zero(t, until, "the name has changed hands")
	m.WasFalse(nameA, false, 10)
	m.WasFalse(nameA, false, 10)
	m.Granted(nameA, 1, false, 0, 1)
	m.GivesBack(nameA, 1)
	m.Leave(nameA, 1).End()
	_, until = m.Listen(nameA)
	require.Zero(t, until, "or we have had it")
	m.Granted(nameA, 2, false, 0, 1)
	_, left := m.HandOver(nameA, 2)
	left.End()
	require.Equal(t, 1, stops, "nobody waits")
	m.GivesBack(nameA, 3)
	m.Leave(nameA, 3).End()
	require.Equal(t, 1, stops, "once")
	wake, _ = m.Listen(nameA)
	require.Nil(t, wake)
	m.WasFalse(nameA, false, 1)
}

// Many callers at once: never do two have the name, each hears, and the desk is
// empty in the end.
func TestNoTwoAreAtTheFront(t *testing.T) {
	t.Parallel()
	d := New[*int]()
	var belief sync.Mutex // of leases: see the package
	var has atomic.Int32
	var all sync.WaitGroup
	for id := range 8 {
		all.Go(func() {
			dice := rand.New(rand.NewPCG(uint64(id), 1))
			for range 2000 {
				one := new(int)
				s := d.Join(nameA, one, Wish{Plain: true, Now: 1})
				handed := false
				if s.Turn == Wait {
					if dice.IntN(4) == 0 { // it leaves
						out := d.StepOut(s.Waiter)
						out.Left.End()
						d.Out()
						if out.Handed { // what it was handed is its own to free
							belief.Lock() // the hand-off is over
							has.Add(-1)
							belief.Unlock()
							d.GivesBack(nameA, one)
							d.Leave(nameA, one)
						}
						continue
					}
					<-s.Waiter.Answer
					handed = s.Waiter.Handed
				}
				if handed {
					d.Out()
				} else {
					if dice.IntN(3) == 0 {
						d.Refused(nameA, one, Answer{Seen: Seen{Known: true}, Place: Place{Number: 1}})
					}
					if dice.IntN(5) == 0 {
						d.GiveUp(nameA, one, Place{Number: 1}, 1)
						d.Out()
						continue
					}
					has.Add(1)
					d.Granted(nameA, one, false, 0, 1)
				}
				if n := has.Load(); n != 1 {
					t.Errorf("%d have it", n)
				}
				belief.Lock()
				w, _ := d.HandOver(nameA, one)
				if w != nil {
					w.Tell()
				} else {
					has.Add(-1)
					d.GivesBack(nameA, one)
				}
				belief.Unlock()
				if w == nil {
					d.Leave(nameA, one)
				}
			}
		})
	}
	all.Wait()
	require.Zero(t, d.Names())
	require.Zero(t, d.Inside())
	require.Zero(t, d.lines.len())
}
