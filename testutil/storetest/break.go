package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// breakCases are for stores that are a [store.Inspector], as inspectCases are.
var breakCases = []testCase{
	{"a broken lease is not renewed, and not free", inspected(brokenIsKept)},
	{"a broken lease lapses at its TTL", inspected(brokenLapses)},
	{"a broken lease is freed at once by its owner", inspected(brokenIsFreed)},
	{"a lease broken by force is free at once", inspected(brokenByForce)},
	{"a broken lease may be broken by force", inspected(forcedAfterwards)},
	{"only the lease that has the token is broken", inspected(breakCompares)},
	{"a lease may be broken again", inspected(brokenAgain)},
	{"one slot is broken, and no other", inspected(brokenSlot)},
	{"a slot is broken by force", inspected(forcedSlot)},
	{"who broke a lease is kept short and printable", inspected(brokenText)},
	{"the process hears of a lease that is broken", inspected(processHears)},
}

// by is who breaks leases here.
var by = store.Broken{By: "alice", Why: "hangs for an hour"}

// broken orders the end of a lease, and returns an answer that is certain.
func (s *inspectSuite) broken(t testing.TB, b store.Breaking) store.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callBy)
	defer cancel()
	answer := s.inspector.Break(ctx, b)
	require.NoError(t, answer.Err, "%q", b.Name)
	require.Contains(t, []store.Status{store.StatusHeld, store.StatusTaken, store.StatusGone},
		answer.Status, "%q", b.Name)
	return answer
}

// breaks requires that a lease is broken, by order.
func (s *inspectSuite) breaks(t testing.TB, name string, fence int64, order store.Broken) {
	t.Helper()
	answer := s.broken(t, store.Breaking{Name: name, Fence: fence, Broken: order})
	requireStatus(t, store.StatusHeld, answer.Status, "it is broken now")
}

func (s *inspectSuite) breaksSlot(t testing.TB, fence int64, order store.Broken) {
	t.Helper()
	answer := s.broken(t, store.Breaking{
		Name: limit.Text, Limit: true, Fence: fence, Broken: order,
	})
	requireStatus(t, store.StatusHeld, answer.Status, "it is broken now")
}

// hears requires that an owner who renews a lease, or releases one that it has
// no more, hears that it was broken, by want.
func (s *inspectSuite) hears(
	t testing.TB, do func(context.Context, []store.Hold) []store.Answer, hold store.Hold,
	want store.Broken,
) {
	t.Helper()
	answer := s.answers(t, do, []store.Hold{hold})[0]
	if want.Force {
		require.Contains(t, []store.Status{store.StatusTaken, store.StatusGone}, answer.Status)
	} else {
		requireStatus(t, store.StatusBroken, answer.Status)
	}
	require.NotNil(t, answer.Broken, "who broke it")
	require.Equal(t, want, *answer.Broken)
}

func brokenIsKept(t *testing.T, s *inspectSuite) {
	a, b := newOwner(), newOwner()
	fence := s.own(t, "name", a, long)
	s.own(t, "other", a, long)
	s.breaks(t, "name", fence, by)
	l := s.show(t, "name")
	require.Len(t, l.Slots, 1)
	assert.False(t, l.Slots[0].Told, "it has not asked yet")
	for range 2 {
		answers := s.answers(t, s.Store.Renew, []store.Hold{
			{Name: "other", Owner: a, TTL: long},
			{Name: "name", Owner: a, TTL: long},
			{Name: "free", Owner: a, TTL: long},
		})
		assertStatuses(t, []store.Status{store.StatusHeld, store.StatusBroken, store.StatusGone},
			[]store.Status{answers[0].Status, answers[1].Status, answers[2].Status})
		assert.Equal(t, &by, answers[1].Broken)
		assert.Nil(t, answers[0].Broken)
		assert.Nil(t, answers[2].Broken)
	}
	assert.False(t, s.refused(t, "name", b).Broken)
	assert.True(t, s.refused(t, "name", a).Broken, "it may not know that it has it")
	l = s.show(t, "name")
	require.Len(t, l.Slots, 1)
	assert.Equal(t, &by, l.Slots[0].Broken)
	assert.True(t, l.Slots[0].Told)
	assert.Equal(t, fence, l.Slots[0].Fence)
	assert.Equal(t, &by, s.list(t, nil)[contract.Name{Text: "name"}].Slots[0].Broken)

	assertStatus(t, store.StatusHeld, s.release(t, "name", a), "its operation has returned")
	next := s.obtain(t, "name", b)
	assert.Greater(t, next, fence)
	assert.Nil(t, s.show(t, "name").Slots[0].Broken)
	assertStatus(t, store.StatusTaken, s.renew(t, "name", a, long))
	assertStatus(t, store.StatusTaken, s.release(t, "name", a))
	assertStatus(t, store.StatusHeld, s.renew(t, "name", b, long))
}

func brokenLapses(t *testing.T, s *inspectSuite) {
	a, ttl := newOwner(), 2*s.short // a busy machine may be late with a renewal
	since := time.Now()
	fence := s.own(t, "name", a, ttl)
	s.breaks(t, "name", fence, by)
	s.hears(t, s.Store.Renew, held(a), by) // which does not move the end
	b := s.lapse(t, since, ttl)
	assertStatus(t, store.StatusTaken, s.release(t, "name", a))
	assertStatus(t, store.StatusHeld, s.renew(t, "name", b, long))
}

func brokenIsFreed(t *testing.T, s *inspectSuite) {
	a := newOwner()
	w := s.watch("name")
	defer w.stop()
	w.await(t, s.suite, "its set-up")
	fence := s.own(t, "name", a, long)
	s.refused(t, "name", newOwner())
	s.breaks(t, "name", fence, by)
	w.clear()
	hold := store.Hold{Name: "name", Owner: a, Keep: long}
	assertStatus(t, store.StatusHeld, s.holds(t, s.Store.Release, []store.Hold{hold})[0])
	w.await(t, s.suite, "its release")
	s.obtain(t, "name", newOwner())
}

func brokenByForce(t *testing.T, s *inspectSuite) {
	a, b := newOwner(), newOwner()
	w := s.watch("name")
	defer w.stop()
	w.await(t, s.suite, "its set-up")
	fence := s.own(t, "name", a, long)
	s.refused(t, "name", b)
	w.clear()
	forced := store.Broken{By: by.By, Why: by.Why, Force: true}
	s.breaks(t, "name", fence, forced)
	assert.Empty(t, s.show(t, "name").Slots)
	w.await(t, s.suite, "the end of the lease")
	s.hears(t, s.Store.Renew, held(a), forced)
	assert.Greater(t, s.obtain(t, "name", b), fence)
	s.hears(t, s.Store.Renew, held(a), forced)
	s.hears(t, s.Store.Release, held(a), forced)
	assert.Nil(t, s.show(t, "name").Slots[0].Broken, "the next owner's is not broken")
	assertStatus(t, store.StatusHeld, s.renew(t, "name", b, long))
	assertStatus(t, store.StatusHeld, s.release(t, "name", b))
}

func forcedAfterwards(t *testing.T, s *inspectSuite) {
	a := newOwner()
	fence := s.own(t, "name", a, long)
	s.breaks(t, "name", fence, by)
	forced := store.Broken{By: "bob", Why: "does not return", Force: true}
	s.breaks(t, "name", fence, forced)
	s.hears(t, s.Store.Renew, held(a), forced)
	s.own(t, "name", newOwner(), long)
}

func breakCompares(t *testing.T, s *inspectSuite) {
	for _, force := range []bool{false, true} {
		order := store.Breaking{
			Name: "name", Fence: 7, Broken: store.Broken{By: "alice", Why: "test", Force: force},
		}
		assertStatus(t, store.StatusGone, s.broken(t, order).Status, "no owner has it")
		a, b := newOwner(), newOwner()
		old := s.own(t, "name", a, long)
		requireStatus(t, store.StatusHeld, s.release(t, "name", a))
		holder := store.Holder{Node: "holder", PID: 2, Operation: "work"}
		g := s.acquireAs(t, "name", b, long, holder)
		requireStatus(t, store.StatusHeld, g.Status)
		for _, wrong := range []int64{old, g.Fence - 1, g.Fence + 1, g.Fence * 10} {
			order.Fence = wrong
			answer := s.broken(t, order)
			assertStatus(t, store.StatusTaken, answer.Status, "%d is not %d", wrong, g.Fence)
			assert.Equal(t, &holder, answer.Holder)
		}
		assertStatus(t, store.StatusHeld, s.renew(t, "name", b, long), "nothing has broken it")
		requireStatus(t, store.StatusHeld, s.release(t, "name", b))
		order.Fence = g.Fence
		assertStatus(t, store.StatusGone, s.broken(t, order).Status, "it is over")
		s.own(t, "name", a, long)
		assertStatus(t, store.StatusHeld, s.renew(t, "name", a, long), "nothing is left of it")
		requireStatus(t, store.StatusHeld, s.release(t, "name", a))
	}
}

func brokenAgain(t *testing.T, s *inspectSuite) {
	a := newOwner()
	fence := s.own(t, "name", a, long)
	s.breaks(t, "name", fence, by)
	s.breaks(t, "name", fence, store.Broken{By: "bob", Why: "no idea"})
	s.hears(t, s.Store.Renew, held(a), by) // the first is who broke it
	s.refused(t, "name", newOwner())
	assertStatus(t, store.StatusHeld, s.release(t, "name", a))
	s.own(t, "name", newOwner(), long)
}

func brokenSlot(t *testing.T, s *inspectSuite) {
	if !s.limits(t) {
		return
	}
	a, b := slot(newOwner(), 2), slot(newOwner(), 2)
	fence, other := s.takeSlot(t, a), s.takeSlot(t, b)
	wrong := store.Breaking{Name: limit.Text, Limit: true, Fence: other + 1, Broken: by}
	assertStatus(t, store.StatusGone, s.broken(t, wrong).Status, "no slot has the token")
	s.breaksSlot(t, fence, by)
	s.hears(t, s.Store.Renew, slotHeld(a.Owner), by)
	requireStatus(t, store.StatusHeld, s.renewSlot(t, b.Owner, long))
	assert.False(t, s.full(t, slot(newOwner(), 2), 2, "the slot is not free yet").Broken)
	assert.True(t, s.full(t, a, 2, "it is not its owner's any more").Broken)
	a.Limit = 3 // though another is free
	assert.True(t, s.full(t, a, 2, "its owner is to release it first").Broken)
	for _, slot := range s.showOf(t, limit).Slots {
		if slot.Fence == fence {
			assert.Equal(t, &by, slot.Broken)
			assert.True(t, slot.Told)
		} else {
			assert.Nil(t, slot.Broken)
		}
	}
	hold := store.Hold{Name: limit.Text, Limit: true, Owner: a.Owner, Keep: long}
	requireStatus(t, store.StatusHeld, s.holds(t, s.Store.Release, []store.Hold{hold})[0])
	s.takeSlot(t, slot(newOwner(), 2))
	s.full(t, slot(newOwner(), 2), 2)
}

func forcedSlot(t *testing.T, s *inspectSuite) {
	if !s.limits(t) {
		return
	}
	a, b := slot(newOwner(), 2), slot(newOwner(), 2)
	fence := s.takeSlot(t, a)
	s.takeSlot(t, b)
	s.full(t, slot(newOwner(), 2), 2)
	w := s.watchOf(limit)
	defer w.stop()
	w.await(t, s.suite, "its set-up")
	w.clear()
	forced := store.Broken{By: by.By, Why: by.Why, Force: true}
	s.breaksSlot(t, fence, forced)
	w.await(t, s.suite, "the end of the slot")
	s.hears(t, s.Store.Renew, slotHeld(a.Owner), forced)
	s.takeSlot(t, slot(newOwner(), 2))
	s.full(t, slot(newOwner(), 2), 2)
	s.hears(t, s.Store.Release, slotHeld(a.Owner), forced)
	requireStatus(t, store.StatusHeld, s.renewSlot(t, b.Owner, long))
	s.full(t, slot(newOwner(), 2), 2, "a late release frees nothing")
}

func brokenText(t *testing.T, s *inspectSuite) {
	for i, c := range []struct{ given, kept string }{
		{"", ""},
		{"it's {her} | %s \\ \"x\"", "it's {her} | %s \\ \"x\""},
		{"al\x00i\n\x1b[31m\xff\u202ece\r", "ali[31mce"},
		{strings.Repeat("x", 65), strings.Repeat("x", 64)},
		{strings.Repeat("é", 100), strings.Repeat("é", 32)},
		{"x" + strings.Repeat("é", 100), "x" + strings.Repeat("é", 31)},
		{strings.Repeat("y", 10_000), strings.Repeat("y", 64)},
	} {
		name, owner := fmt.Sprint("name ", i), newOwner()
		given := store.Broken{By: c.given, Why: "why " + c.given, Replaced: i%2 == 1}
		s.breaks(t, name, s.own(t, name, owner, long), given)
		want := store.Broken{By: c.kept, Replaced: given.Replaced}
		hold := store.Hold{Name: name, Owner: owner, TTL: long}
		answer := s.answers(t, s.Store.Renew, []store.Hold{hold})[0]
		require.NotNil(t, answer.Broken, "%q", c.given)
		assert.LessOrEqual(t, len(answer.Broken.Why), 64)
		assert.True(t, strings.HasPrefix("why "+c.kept, answer.Broken.Why), "%q", c.given)
		want.Why = answer.Broken.Why
		assert.Equal(t, want, *answer.Broken, "%q", c.given)
		assert.Equal(t, &want, s.show(t, name).Slots[0].Broken)
	}
}

func processHears(t *testing.T, s *inspectSuite) {
	var mu sync.Mutex
	heard := make(map[string]bool)
	stop := s.inspector.OnBreak(store.Holder{Node: "node", PID: 1, Operation: "any"},
		func(name string, limit bool) {
			mu.Lock()
			defer mu.Unlock()
			heard[name] = !limit
		})
	defer stop()
	s.until(t, "that it is set up", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return heard[""]
	})
	n, forced := 0, by
	breakOne := func() string {
		n++
		name, owner := fmt.Sprint("name ", n), newOwner()
		forced.Force = n%2 == 0
		s.breaks(t, name, s.own(t, name, owner, long), forced) // by acquire, of this process
		return name
	}
	known := map[string]bool{"": true}
	s.until(t, "the process hears of a lease", func() bool { // messages may be lost
		known[breakOne()] = true
		mu.Lock()
		defer mu.Unlock()
		return len(heard) > 2
	})
	mu.Lock()
	for name, lock := range heard {
		assert.True(t, known[name] && lock, "%q", name)
	}
	mu.Unlock()
	stop()
	s.wait(t, 50*time.Millisecond)
	mu.Lock()
	clear(heard)
	mu.Unlock()
	breakOne()
	s.wait(t, 50*time.Millisecond)
	mu.Lock()
	defer mu.Unlock()
	assert.Empty(t, heard, "it listens no more")
}
