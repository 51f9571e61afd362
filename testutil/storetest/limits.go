package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// limitCases prove what is said of [store.Claim]. A store that has no limits
// need only say so.
var limitCases = []testCase{
	{"a limit admits as many as it says", limitAdmits},
	{"a limit admits as many of a batch", limitBatch},
	{"a slot claimed again is one slot", slotAgain},
	{"a slot that lapses is free, and no other", slotLapses},
	{"a slot that is renewed is kept", slotRenewed},
	{"a slot that is kept after its release", slotKept},
	{"the number is the claim's own", limitChanges},
	{"a limit and a lock of one name are two things", limitIsNoLock},
	{"an owner frees no other's slot", slotIsTheOwners},
	{"a free slot is the first place's", slotTurns},
	{"a slot that lapses is the first place's", slotTurnLapsed},
	{"a turn that nobody claims goes on", slotTurnUnclaimed},
	{"a place that is given up passes its slot on", slotTurnGivenUp},
	{"several claims from one place", slotsFromAPlace},
	{"a higher limit wakes as many as fit", limitRaised},
	{"a limit without slots is forgotten", limitForgotten},
}

// limits reports whether the store has limits. It must say so of one that has
// none.
func (s *suite) limits(t *testing.T) bool {
	t.Helper()
	if !s.NoLimits {
		return true
	}
	ctx, cancel := context.WithTimeout(t.Context(), callBy)
	defer cancel()
	g := s.Store.Acquire(ctx, []store.Claim{slot(newOwner(), 3)})[0]
	require.ErrorIs(t, g.Err, store.ErrConfig)
	require.ErrorIs(t, g.Err, store.ErrRejected)
	require.Equal(t, store.StatusUnknown, g.Status)
	return false
}

// limit is what slots here are of.
var limit = contract.Name{Text: "name", Limit: true}

func slot(owner string, of int) store.Claim {
	return store.Claim{
		Name: limit.Text, Owner: owner, TTL: long, Limit: of,
		Holder: store.Holder{Node: owner, PID: 1},
	}
}

// slots has new owners take so many slots, of as many.
func (s *suite) slots(t *testing.T, n, of int) (owners []string) {
	t.Helper()
	for range n {
		owner := newOwner()
		s.takeSlot(t, slot(owner, of))
		owners = append(owners, owner)
	}
	return owners
}

// takeSlot requires that a claim is granted, and returns the token.
func (s *suite) takeSlot(t *testing.T, c store.Claim, why ...any) int64 {
	t.Helper()
	g := s.acquireAll(t, []store.Claim{c})[0]
	requireStatus(t, store.StatusHeld, g.Status, why...)
	require.Zero(t, g.Reserved, "tokens of a slot are not reserved")
	return g.Fence
}

// full requires that a claim is refused since so many have a slot.
func (s *suite) full(t *testing.T, c store.Claim, held int, why ...any) store.Grant {
	t.Helper()
	g := s.acquireAll(t, []store.Claim{c})[0]
	requireRefused(t, g, why...)
	require.Equal(t, held, g.Held, "how many have a slot")
	return g
}

func (s *suite) freeSlot(t *testing.T, owner string) store.Status {
	t.Helper()
	return s.holds(t, s.Store.Release, []store.Hold{slotHeld(owner)})[0]
}

func limitAdmits(t *testing.T, s *suite) {
	if !s.limits(t) {
		return
	}
	owners := s.slots(t, 2, 3)
	fence := s.takeSlot(t, slot(newOwner(), 3))
	for range 3 {
		g := s.full(t, slot(newOwner(), 3), 3)
		if s.Blind {
			continue
		}
		assert.Positive(t, g.TTL, "when the next may end")
		assert.LessOrEqual(t, g.TTL, long+s.slack)
		assert.Contains(t, g.Holder.Node, "owner-")
	}
	for range 3 { // each time one is free, one is had
		requireStatus(t, store.StatusHeld, s.freeSlot(t, owners[0]))
		owners[0] = newOwner()
		last := fence
		fence = s.takeSlot(t, slot(owners[0], 3), "one is free")
		require.Greater(t, fence, last, "tokens rise over all slots")
		s.full(t, slot(newOwner(), 3), 3)
	}
}

func limitBatch(t *testing.T, s *suite) {
	if !s.limits(t) {
		return
	}
	s.slots(t, 1, 4)
	claims := make([]store.Claim, 6)
	for i := range claims {
		claims[i] = slot(newOwner(), 4)
	}
	claims[1] = claims[0]
	held, last := 0, int64(0)
	for i, g := range s.acquireAll(t, claims) {
		if g.Status != store.StatusHeld {
			require.Equal(t, 4, g.Held)
			continue
		}
		held++
		if i == 1 {
			require.Equal(t, last, g.Fence, "the same slot")
			continue
		}
		require.Greater(t, g.Fence, last)
		last = g.Fence
	}
	require.Equal(t, 4, held, "three slots were free, and one of them was claimed twice")
	s.full(t, slot(newOwner(), 4), 4)
}

func slotAgain(t *testing.T, s *suite) {
	if !s.limits(t) {
		return
	}
	first, other := newOwner(), newOwner()
	fence := s.takeSlot(t, slot(first, 2))
	for range 3 {
		require.Equal(t, fence, s.takeSlot(t, slot(first, 2)))
	}
	s.takeSlot(t, slot(other, 2))
	s.full(t, slot(newOwner(), 2), 2)
	require.Equal(t, fence, s.takeSlot(t, slot(first, 2)), "also while the limit is full")
	require.Equal(t, fence, s.takeSlot(t, slot(first, 1)), "also by a lower number")
	requireStatus(t, store.StatusHeld, s.freeSlot(t, first))
	requireStatus(t, store.StatusGone, s.freeSlot(t, first))
	s.takeSlot(t, slot(newOwner(), 2))
	s.full(t, slot(newOwner(), 2), 2)
}

func slotLapses(t *testing.T, s *suite) {
	if !s.limits(t) {
		return
	}
	s.slots(t, 1, 3)
	dead := newOwner()
	short := slot(dead, 3)
	short.TTL = s.short
	s.takeSlot(t, short)
	s.slots(t, 1, 3)
	g := s.full(t, slot(newOwner(), 3), 3)
	if !s.Blind {
		assert.LessOrEqual(t, g.TTL, s.short, "that of the one that lapses first")
		assert.Equal(t, dead, g.Holder.Node)
	}
	s.wait(t, s.short+s.slack)
	requireStatus(t, store.StatusGone, s.renewSlot(t, dead, long), "it is not made again")
	s.takeSlot(t, slot(newOwner(), 3))
	s.full(t, slot(newOwner(), 3), 3)
	requireStatus(t, store.StatusGone, s.freeSlot(t, dead), "a late release frees nothing")
	s.full(t, slot(newOwner(), 3), 3)
}

func slotRenewed(t *testing.T, s *suite) {
	if !s.limits(t) {
		return
	}
	var holds []store.Hold
	s.until(t, "the machine runs the test for a TTL of the slots", func() bool {
		for _, h := range holds {
			s.freeSlot(t, h.Owner)
		}
		since := time.Now()
		holds = nil
		for _, ttl := range []time.Duration{long, s.short} {
			c := slot(newOwner(), 2)
			c.TTL = s.short
			s.takeSlot(t, c)
			hold := slotHeld(c.Owner)
			hold.TTL = ttl
			holds = append(holds, hold)
		}
		statuses := s.holds(t, s.Store.Renew, holds)
		inTime := time.Since(since) < s.short
		if inTime {
			assertStatuses(t, []store.Status{store.StatusHeld, store.StatusHeld}, statuses)
			requireStatus(t, store.StatusHeld, s.renewSlot(t, holds[0].Owner, s.short))
		}
		return inTime
	})
	s.wait(t, s.short+s.slack)
	s.full(t, slot(newOwner(), 1), 1, "it was renewed for longer, and that is not shortened")
	assertStatuses(t, []store.Status{store.StatusHeld, store.StatusGone},
		s.holds(t, s.Store.Renew, holds))
}

func slotKept(t *testing.T, s *suite) {
	if !s.limits(t) {
		return
	}
	owners := s.slots(t, 2, 2)
	hold := store.Hold{Name: limit.Text, Limit: true, Owner: owners[0], Keep: s.short}
	requireStatus(t, store.StatusHeld, s.holds(t, s.Store.Release, []store.Hold{hold})[0])
	s.full(t, slot(newOwner(), 2), 2)
	s.wait(t, s.short+s.slack)
	s.takeSlot(t, slot(newOwner(), 2))
	s.full(t, slot(newOwner(), 2), 2)
}

func limitChanges(t *testing.T, s *suite) {
	if !s.limits(t) {
		return
	}
	owners := s.slots(t, 3, 3)
	s.full(t, slot(newOwner(), 1), 3, "a lower number admits none")
	for _, owner := range owners {
		requireStatus(t, store.StatusHeld, s.renewSlot(t, owner, long), "and ends none")
	}
	s.takeSlot(t, slot(newOwner(), 4), "a higher one admits more")
	s.full(t, slot(newOwner(), 4), 4)
	for i, owner := range owners {
		requireStatus(t, store.StatusHeld, s.freeSlot(t, owner))
		s.full(t, slot(newOwner(), 1), 3-i, "as long as any has a slot")
	}
}

func limitIsNoLock(t *testing.T, s *suite) {
	if !s.limits(t) {
		return
	}
	holder, owner := newOwner(), newOwner()
	s.own(t, "name", holder, long)
	s.takeSlot(t, slot(owner, 1))
	requireStatus(t, store.StatusGone, s.freeSlot(t, holder))
	requireStatus(t, store.StatusTaken, s.release(t, "name", owner))
	requireStatus(t, store.StatusHeld, s.renewSlot(t, owner, long))
	requireStatus(t, store.StatusTaken, s.renew(t, "name", owner, long))
	s.full(t, slot(newOwner(), 1), 1)
	w := s.watchOf(limit)
	defer w.stop()
	w.await(t, s, "its set-up")
	requireStatus(t, store.StatusHeld, s.release(t, "name", holder))
	s.full(t, slot(newOwner(), 1), 1)
	s.own(t, "name", newOwner(), long)
	w.clear()
	requireStatus(t, store.StatusHeld, s.freeSlot(t, owner))
	w.await(t, s, "the release of the slot")
	s.takeSlot(t, slot(newOwner(), 1))
}

func slotIsTheOwners(t *testing.T, s *suite) {
	if !s.limits(t) {
		return
	}
	s.slots(t, 2, 2)
	stranger := newOwner()
	requireStatus(t, store.StatusGone, s.freeSlot(t, stranger))
	requireStatus(t, store.StatusGone, s.renewSlot(t, stranger, long))
	s.full(t, slot(newOwner(), 2), 2)
}

// slotsInLine fills a limit, and has places stand in line behind it. It reports
// false for a store that has no lines.
func (s *suite) slotsInLine(t *testing.T, of int, places ...uint64) (owners []string, lines bool) {
	t.Helper()
	if !s.limits(t) {
		return nil, false
	}
	owners = s.slots(t, of, of)
	claim := slot(newOwner(), of)
	claim.Place = places[0]
	s.full(t, claim, of)
	w := s.watchOf(limit)
	t.Cleanup(w.stop)
	w.await(t, s, "its set-up")
	if !s.Lines {
		return owners, false
	}
	for _, p := range places {
		s.until(t, "a place in line", func() bool {
			claim := slot(newOwner(), of)
			claim.Place = p
			return s.acquireAll(t, []store.Claim{claim})[0].Status == store.StatusQueued
		})
	}
	return owners, true
}

func slotFrom(place uint64, of int) store.Claim {
	c := slot(newOwner(), of)
	c.Place = place
	return c
}

func slotTurns(t *testing.T, s *suite) {
	owners, lines := s.slotsInLine(t, 2, 1, 2, 3)
	if !lines {
		return
	}
	requireStatus(t, store.StatusHeld, s.freeSlot(t, owners[0]))
	s.full(t, slot(newOwner(), 2), 2, "the free slot is kept for the first")
	s.full(t, slotFrom(2, 2), 2)
	requireStatus(t, store.StatusHeld, s.freeSlot(t, owners[1]))
	s.full(t, slotFrom(3, 2), 2, "two slots, two turns")
	s.takeSlot(t, slotFrom(2, 2), "in any order")
	third := slotFrom(1, 2)
	s.takeSlot(t, third)
	s.full(t, slotFrom(1, 2), 2, "a turn is used up by a grant")
	requireStatus(t, store.StatusHeld, s.freeSlot(t, third.Owner))
	s.takeSlot(t, slotFrom(3, 2))
}

func slotTurnLapsed(t *testing.T, s *suite) {
	if !s.limits(t) {
		return
	}
	dead := slot(newOwner(), 2)
	dead.TTL = s.short
	s.takeSlot(t, dead)
	other := s.slots(t, 1, 2)[0]
	claim := slotFrom(1, 2)
	s.full(t, claim, 2)
	w := s.watchOf(limit)
	t.Cleanup(w.stop)
	w.await(t, s, "its set-up")
	s.wait(t, s.short+s.slack)
	if s.Lines { // a heartbeat is enough for the slot to be passed on
		requireStatus(t, store.StatusHeld, s.renewSlot(t, other, long))
	}
	s.until(t, "the slot of the dead", func() bool {
		return s.acquireAll(t, []store.Claim{claim})[0].Status == store.StatusHeld
	})
	s.full(t, slot(newOwner(), 2), 2)
}

func slotTurnUnclaimed(t *testing.T, s *suite) {
	owners, lines := s.slotsInLine(t, 1, 1, 2)
	if !lines {
		return
	}
	requireStatus(t, store.StatusHeld, s.freeSlot(t, owners[0]))
	claim := slotFrom(2, 1)
	s.until(t, "the turn of the next", func() bool {
		return s.acquireAll(t, []store.Claim{claim})[0].Status == store.StatusHeld
	})
}

func slotTurnGivenUp(t *testing.T, s *suite) {
	owners, lines := s.slotsInLine(t, 1, 1, 2, 3)
	if !lines {
		return
	}
	giveUp := func(place uint64) {
		hold := store.Hold{Name: limit.Text, Limit: true, Owner: newOwner(), Place: place}
		s.holds(t, s.Store.Release, []store.Hold{hold})
	}
	giveUp(2) // which has no turn
	requireStatus(t, store.StatusHeld, s.freeSlot(t, owners[0]))
	giveUp(1)
	s.takeSlot(t, slotFrom(3, 1), "those before it have left")
	giveUp(3)
	s.full(t, slot(newOwner(), 1), 1, "a turn that was used is not given up")
}

func slotsFromAPlace(t *testing.T, s *suite) {
	owners, lines := s.slotsInLine(t, 3, 1, 2)
	if !lines {
		return
	}
	from := func(place uint64, n int) (claims []store.Claim) {
		for range n {
			claims = append(claims, slotFrom(place, 3))
		}
		return claims
	}
	requireStatus(t, store.StatusHeld, s.freeSlot(t, owners[0]))
	claims := from(1, 3)
	got := s.acquireAll(t, claims)
	requireStatus(t, store.StatusHeld, got[0].Status, "its turn")
	for _, g := range got[1:] {
		requireStatus(t, store.StatusQueued, g.Status, "the place stands in line for the rest")
		require.Equal(t, 3, g.Held)
	}
	requireStatus(t, store.StatusHeld, s.freeSlot(t, owners[1]))
	s.full(t, slotFrom(1, 3), 3, "it has come again, behind the other")
	s.takeSlot(t, slotFrom(2, 3))
	requireStatus(t, store.StatusHeld, s.freeSlot(t, owners[2]))
	requireStatus(t, store.StatusHeld, s.freeSlot(t, claims[0].Owner))
	last := int64(0)
	for _, g := range s.acquireAll(t, from(1, 2)) {
		requireStatus(t, store.StatusHeld, g.Status, "its turn, and a slot that is free")
		require.Greater(t, g.Fence, last)
		last = g.Fence
	}
	s.full(t, slotFrom(1, 3), 3, "the turn is used up")
}

func limitRaised(t *testing.T, s *suite) {
	_, lines := s.slotsInLine(t, 1, 1, 2, 3)
	if !lines {
		return
	}
	s.takeSlot(t, slot(newOwner(), 4), "there is room by its number")
	s.full(t, slot(newOwner(), 4), 4, "and two have their turns")
	s.takeSlot(t, slotFrom(1, 4))
	s.takeSlot(t, slotFrom(2, 4))
	s.full(t, slotFrom(3, 4), 4)
}

func limitForgotten(t *testing.T, s *suite) {
	if !s.limits(t) {
		return
	}
	for i, owner := range s.slots(t, 3, 3) {
		s.full(t, slot(newOwner(), 1), 3-i)
		requireStatus(t, store.StatusHeld, s.freeSlot(t, owner))
	}
	s.slots(t, 1, 1)
}
