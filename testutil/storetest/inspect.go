package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// inspectCases are for stores that are a [store.Inspector]; others have nothing
// to prove here.
var inspectCases = []testCase{
	{"who has a name is shown", inspected(showsHolder)},
	{"a free name is shown as free", inspected(showsFree)},
	{"the slots of a limit are shown", inspected(showsSlots)},
	{"who waits is shown in order", inspected(showsPlaces)},
	{"how many callers wait in its process is shown as it was told", inspected(showsCallers)},
	{"what another program wrote is shown as such", inspected(showsForeign)},
	{"each held name is listed once", inspected(listsEach)},
	{"only what is wanted is listed", inspected(listsWanted)},
	{"a list may be left, and acted on", inspected(listLeft)},
	{"an inspection and a context that has ended", inspected(inspectionEnded)},
}

// inspectSuite is a case's suite with its store as an Inspector.
type inspectSuite struct {
	*suite

	inspector store.Inspector
}

func inspected(run func(t *testing.T, s *inspectSuite)) func(*testing.T, *suite) {
	return func(t *testing.T, s *suite) {
		if i, ok := s.Store.(store.Inspector); ok {
			run(t, &inspectSuite{s, i})
		}
	}
}

// show reads one name and checks what holds of every answer.
func (s *inspectSuite) show(t testing.TB, name string) store.Lock {
	t.Helper()
	return s.showOf(t, contract.Name{Text: name})
}

func (s *inspectSuite) showOf(t testing.TB, name contract.Name) store.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callBy)
	defer cancel()
	l, err := s.inspector.Show(ctx, name.Text, name.Limit)
	require.NoError(t, err, "%q", name)
	s.saneLock(t, l)
	require.Equal(t, name, nameOf(l))
	return l
}

func (s *inspectSuite) saneLock(t testing.TB, l store.Lock) {
	t.Helper()
	require.False(t, l.At.IsZero(), "%q: the store's time", l.Name)
	if !l.Limit {
		require.LessOrEqual(t, len(l.Slots), 1, "%q: one has a lock", l.Name)
	}
	for i, slot := range l.Slots {
		require.Positive(t, slot.Fence, "%q", l.Name)
		require.Positive(t, slot.TTL, "%q: it has not lapsed", l.Name)
		require.LessOrEqual(t, slot.TTL, long+s.slack, "%q", l.Name)
		require.False(t, slot.Since.After(l.At), "%q: since %v at %v", l.Name, slot.Since, l.At)
		require.False(t, slot.Since.Before(l.At.Add(-long)), "%q: by the store's clock", l.Name)
		if i > 0 {
			require.LessOrEqual(t, l.Slots[i-1].TTL, slot.TTL,
				"%q: the one that lapses first is in front", l.Name)
		}
	}
}

func nameOf(l store.Lock) contract.Name { return contract.Name{Text: l.Name, Limit: l.Limit} }

// list reads all names that want wants.
func (s *inspectSuite) list(
	t testing.TB, want func(name string, limit bool) bool,
) map[contract.Name]store.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	all := make(map[contract.Name]store.Lock)
	for l, err := range s.inspector.List(ctx, want) {
		require.NoError(t, err)
		s.saneLock(t, l)
		require.False(t, len(l.Slots) == 0 && l.Turns+l.Tasks == 0 && !l.Foreign,
			"%q: it is free", l.Name)
		require.Nil(t, l.Places, "%q: places are for Show", l.Name)
		name := nameOf(l)
		_, twice := all[name] // NotContains would look at each of them
		require.False(t, twice, "%q: it is listed twice", name)
		all[name] = l
	}
	return all
}

func showsHolder(t *testing.T, s *inspectSuite) {
	holder := store.Holder{Node: "web-1", PID: 4711, Operation: "charge"}
	owner := newOwner()
	g := s.acquireAs(t, "name", owner, 2*s.short, holder)
	requireStatus(t, store.StatusHeld, g.Status)
	first := s.show(t, "name")
	require.Len(t, first.Slots, 1)
	slot := first.Slots[0]
	assert.Equal(t, holder, slot.Holder)
	assert.Equal(t, g.Fence, slot.Fence)
	assert.LessOrEqual(t, slot.TTL, 2*s.short)
	assert.Nil(t, slot.Broken)
	assert.False(t, first.Foreign)
	assert.Zero(t, first.Turns+first.Waiting+first.Tasks)

	s.wait(t, 20*time.Millisecond)
	requireStatus(t, store.StatusHeld, s.renew(t, "name", owner, long))
	later := s.show(t, "name")
	require.Len(t, later.Slots, 1)
	assert.GreaterOrEqual(t, later.At.Sub(first.At), 20*time.Millisecond-s.slack)
	assert.Greater(t, later.Slots[0].TTL, long/2, "a heartbeat moves the end")
	assert.WithinDuration(t, slot.Since, later.Slots[0].Since, 0, "and not the beginning")
	assert.Equal(t, g.Fence, later.Slots[0].Fence)
	assert.Equal(t, map[contract.Name]store.Lock{nameOf(later): later},
		withTime(s.list(t, nil), later))
}

// withTime gives the one lock of a list the times of another look at it.
func withTime(
	all map[contract.Name]store.Lock, as store.Lock,
) map[contract.Name]store.Lock {
	for name, l := range all {
		l.At = as.At
		for i := range min(len(l.Slots), len(as.Slots)) {
			l.Slots[i].TTL = as.Slots[i].TTL
		}
		all[name] = l
	}
	return all
}

func showsFree(t *testing.T, s *inspectSuite) {
	freeOf := func(name contract.Name) {
		t.Helper()
		l := s.showOf(t, name)
		assert.Equal(t, store.Lock{Name: l.Name, Limit: l.Limit, At: l.At}, l)
	}
	free := func(name string) {
		t.Helper()
		freeOf(contract.Name{Text: name})
	}
	free("never held")
	freeOf(contract.Name{Text: "never held", Limit: true})
	owner := newOwner()
	s.own(t, "name", owner, long)
	free("other")
	requireStatus(t, store.StatusHeld, s.release(t, "name", owner))
	free("name")
	s.own(t, "name", newOwner(), s.short)
	s.wait(t, s.short+s.slack)
	free("name")
	assert.Empty(t, s.list(t, nil))
	s.own(t, "never held", newOwner(), long) // a look has made nothing
}

func showsSlots(t *testing.T, s *inspectSuite) {
	if !s.limits(t) {
		return
	}
	s.own(t, "name", newOwner(), long)
	take := func(ttl time.Duration) int64 {
		claim := slot(newOwner(), 4)
		claim.TTL = ttl
		return s.takeSlot(t, claim)
	}
	var fences []int64 // by how soon they lapse
	for _, ttl := range []time.Duration{long / 2, long, long / 3} {
		fences = append(fences, take(ttl))
	}
	fences[0], fences[1], fences[2] = fences[2], fences[0], fences[1]
	see := func(want []int64) {
		t.Helper()
		l := s.showOf(t, limit)
		var got []int64
		for _, slot := range l.Slots {
			got = append(got, slot.Fence)
			assert.Contains(t, slot.Node, "owner-")
		}
		assert.Equal(t, want, got)
		assert.Equal(t, l.Slots, withTime(s.list(t, nil), l)[limit].Slots)
	}
	see(fences)
	require.Len(t, s.show(t, "name").Slots, 1)
	assert.NotContains(t, fences, s.show(t, "name").Slots[0].Fence, "the lock is another thing")
	take(s.short)
	s.wait(t, s.short+s.slack)
	see(fences) // one has lapsed, and is not shown
}

func showsPlaces(t *testing.T, s *inspectSuite) {
	holder := newOwner()
	if !s.line(t, holder, 1, 2, 3) {
		return
	}
	l := s.show(t, "name")
	assert.Equal(t, 3, l.Waiting)
	require.Len(t, l.Places, 3)
	for i, place := range l.Places {
		assert.False(t, place.Since.After(l.At.Add(s.slack))) // no two need come at one instant
		assert.False(t, place.Since.Before(l.At.Add(-long)), "by the store's clock")
		if i > 0 {
			assert.False(t, place.Since.Before(l.Places[i-1].Since), "the first is in front")
		}
	}
	assert.Zero(t, l.Turns)
	assert.Equal(t, 3, s.list(t, nil)[contract.Name{Text: "name"}].Waiting)

	requireStatus(t, store.StatusHeld, s.release(t, "name", holder))
	l = s.show(t, "name")
	assert.Zero(t, l.Turns)
	require.Len(t, l.Slots, 1, "the first has it")
	assert.Equal(t, "place 1", l.Slots[0].Operation)
	assert.Equal(t, 2, l.Waiting)
}

func showsCallers(t *testing.T, s *inspectSuite) {
	told := func(name contract.Name, want int) {
		t.Helper()
		l := s.showOf(t, name)
		assert.Equal(t, want, l.Callers())
		assert.Equal(t, l, withTime(s.list(t, nil), l)[name])
		assert.Equal(t, long.Round(time.Minute), l.Slots[len(l.Slots)-1].TTL.Round(time.Minute),
			"it is renewed as ever")
	}
	see := func(hold store.Hold) {
		t.Helper()
		name := contract.Held(&hold)
		told(name, 3) // by the claim
		for _, n := range []int{19, 7, 0, 123_456} {
			hold.Tells, hold.Callers = true, n
			requireStatus(t, store.StatusHeld, s.holds(t, s.Store.Renew, []store.Hold{hold})[0])
			told(name, n)
		}
		hold.Tells, hold.Callers = false, 0
		requireStatus(t, store.StatusHeld, s.holds(t, s.Store.Renew, []store.Hold{hold})[0])
		told(name, 123_456)
		hold.Tells, hold.Callers, hold.Owner = true, 5, newOwner()
		s.holds(t, s.Store.Renew, []store.Hold{hold})
		told(name, 123_456)
	}
	holder := store.Holder{Node: "web-1", PID: 1, Operation: "op"}
	claim := store.Claim{Name: "name", Owner: newOwner(), TTL: long, Holder: holder, Callers: 3}
	requireStatus(t, store.StatusHeld, s.acquireAll(t, []store.Claim{claim})[0].Status)
	see(store.Hold{Name: "name", Owner: claim.Owner, TTL: long})

	if !s.limits(t) {
		return
	}
	claim = slot(newOwner(), 4)
	claim.Callers, claim.Holder = 3, holder
	s.takeSlot(t, claim)
	see(slotHeld(claim.Owner))
	claim.Owner, claim.Callers = newOwner(), 99
	s.takeSlot(t, claim)
	told(limit, 123_456) // those of one process
	claim.Owner, claim.Callers, claim.Holder.PID = newOwner(), 44, 2
	s.takeSlot(t, claim)
	told(limit, 123_500)
}

func showsForeign(t *testing.T, s *inspectSuite) {
	if s.Overwrite == nil {
		return
	}
	fence := s.own(t, "name", newOwner(), long)
	s.Overwrite("name")
	l := s.show(t, "name")
	assert.True(t, l.Foreign)
	assert.Empty(t, l.Slots)
	answer := s.broken(t, store.Breaking{Name: "name", Fence: fence, Broken: by})
	assertStatus(t, store.StatusTaken, answer.Status)
	assert.True(t, answer.Foreign)
}

// listsEach has more names than a store may want to read at once, odd ones
// among them.
func listsEach(t *testing.T, s *inspectSuite) {
	fences := make(map[contract.Name]int64)
	for _, name := range names {
		fences[contract.Name{Text: name}] = s.own(t, name, newOwner(), long)
	}
	var many []store.Claim
	for i := range 1200 {
		many = append(many, store.Claim{Name: fmt.Sprint("many ", i), Owner: newOwner(), TTL: long})
	}
	for i, g := range s.acquireAll(t, many) {
		fences[contract.Claimed(&many[i])] = g.Fence
	}
	if s.limits(t) {
		for _, name := range names {
			claim := slot(newOwner(), 2)
			claim.Name = name
			fences[contract.Claimed(&claim)] = s.takeSlot(t, claim)
		}
	}
	released := newOwner()
	s.own(t, "released", released, long)
	requireStatus(t, store.StatusHeld, s.release(t, "released", released))

	got := make(map[contract.Name]int64)
	for name, l := range s.list(t, nil) {
		require.Len(t, l.Slots, 1, "%q", name)
		got[name] = l.Slots[0].Fence
	}
	assert.Equal(t, fences, got)
	for _, name := range names {
		l := s.show(t, name)
		require.Len(t, l.Slots, 1, "%q", name)
		require.Equal(t, fences[nameOf(l)], l.Slots[0].Fence, "%q", name)
	}
}

func listsWanted(t *testing.T, s *inspectSuite) {
	var held []contract.Name
	for _, name := range []string{"a", "b", "{c}%\x00"} {
		s.own(t, name, newOwner(), long)
		held = append(held, contract.Name{Text: name})
	}
	if s.limits(t) {
		claim := slot(newOwner(), 2)
		claim.Name = "b"
		s.takeSlot(t, claim)
		held = append(held, contract.Claimed(&claim))
	}
	asked := make(map[contract.Name]bool)
	got := s.list(t, func(name string, limit bool) bool {
		asked[contract.Name{Text: name, Limit: limit}] = true
		return name != "b" || limit
	})
	for _, name := range held {
		assert.True(t, asked[name], "%q is asked for", name)
		if name == (contract.Name{Text: "b"}) {
			assert.NotContains(t, got, name)
		} else {
			assert.Contains(t, got, name)
		}
	}
	assert.Empty(t, s.list(t, func(string, bool) bool { return false }))
}

func listLeft(t *testing.T, s *inspectSuite) {
	owners := make(map[string]string)
	for i := range 20 {
		name := fmt.Sprint("name ", i)
		owners[name] = newOwner()
		s.own(t, name, owners[name], long)
	}
	for l, err := range s.inspector.List(t.Context(), nil) {
		require.NoError(t, err)
		requireStatus(t, store.StatusHeld, s.release(t, l.Name, owners[l.Name]),
			"the loop may use the store")
		delete(owners, l.Name)
		break
	}
	assert.Len(t, s.list(t, nil), 19)
}

func inspectionEnded(t *testing.T, s *inspectSuite) {
	fence := s.own(t, "name", newOwner(), long)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := time.Now()
	var errs []error
	for l, err := range s.inspector.List(ctx, nil) {
		assert.Empty(t, l.Slots)
		errs = append(errs, err)
	}
	require.Len(t, errs, 1, "the list ends behind it")
	require.ErrorIs(t, errs[0], context.Canceled)
	_, err := s.inspector.Show(ctx, "name", false)
	require.ErrorIs(t, err, context.Canceled)
	answer := s.inspector.Break(ctx, store.Breaking{Name: "name", Fence: fence, Broken: by})
	assertStatus(t, store.StatusUnknown, answer.Status)
	require.ErrorIs(t, answer.Err, context.Canceled)
	assert.Less(t, time.Since(before), callBy)
}
