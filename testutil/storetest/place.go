package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/store"
)

var placeCases = []testCase{
	{"a place is no lease", placeIsNoLease},
	{"a release grants the first place its claim", claimGranted},
	{"a grant is for as long as the first claim", firstTTL},
	{"a place keeps its rank when it asks again", rankKept},
	{"a place that is given up passes its grant on", grantPassedOn},
	{"a place that is given up again frees nothing", placeGivenUpAgain},
	{"a grant that lapses is for the owner who asks", grantLapses},
	{"a release behind a line that was lost wakes", wokenBehindALostLine},
	{"a renewal that finds name and line lost wakes", wokenByRenewalOfALostLine},
	{"a release that finds name and line lost wakes", wokenByReleaseOfALostLine},
}

// from asks for "name" from a place.
func (s *suite) from(t testing.TB, owner string, place uint64) store.Grant {
	t.Helper()
	return s.fromFor(t, owner, place, long)
}

func (s *suite) fromFor(
	t testing.TB, owner string, place uint64, ttl time.Duration,
) store.Grant {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callBy)
	defer cancel()
	grants := s.Store.Acquire(ctx, []store.Claim{{
		Name: "name", Owner: owner, TTL: ttl, Place: place,
		Holder: store.Holder{Operation: fmt.Sprint("place ", place)},
	}})
	require.Len(t, grants, 1)
	require.NoError(t, grants[0].Err)
	return grants[0]
}

// requireRefused requires that another owner has the name, whether or not the
// place stands in line.
func requireRefused(t testing.TB, g store.Grant, why ...any) {
	t.Helper()
	if g.Status != store.StatusQueued {
		requireStatus(t, store.StatusTaken, g.Status, why...)
	}
}

// giveUp releases "name" and gives a place up.
func (s *suite) giveUp(t testing.TB, owner string, place uint64) store.Status {
	t.Helper()
	hold := store.Hold{Name: "name", Owner: owner, Place: place}
	return s.holds(t, s.Store.Release, []store.Hold{hold})[0]
}

// placeOwner is the owner of all claims from a place of "name".
func placeOwner(place uint64) string { return fmt.Sprintf("%0*d", store.OwnerLen, place) }

// line has an owner hold "name", and places stand in line behind it, in this
// order. It reports false for a store that has no lines.
func (s *suite) line(t *testing.T, holder string, places ...uint64) bool {
	t.Helper()
	return s.lineFor(t, holder, long, places...)
}

func (s *suite) lineFor(
	t *testing.T, holder string, ttl time.Duration, places ...uint64,
) bool {
	t.Helper()
	s.own(t, "name", holder, long)
	requireRefused(t, s.fromFor(t, placeOwner(places[0]), places[0], ttl))
	w := s.watch("name")
	t.Cleanup(w.stop)
	w.await(t, s, "its set-up")
	if !s.Lines {
		for _, p := range places {
			g := s.fromFor(t, placeOwner(p), p, ttl)
			require.NotEqual(t, store.StatusQueued, g.Status, "Fixture.Lines")
		}
		return false
	}
	for _, p := range places {
		s.until(t, "a place in line", func() bool {
			return s.fromFor(t, placeOwner(p), p, ttl).Status == store.StatusQueued
		})
	}
	return true
}

func placeIsNoLease(t *testing.T, s *suite) {
	holder, other := newOwner(), placeOwner(1)
	s.line(t, holder, 1)
	requireRefused(t, s.from(t, other, 1))
	assertStatus(t, store.StatusTaken, s.release(t, "name", other))
	assertStatus(t, store.StatusTaken, s.renew(t, "name", other, long))
	assertStatus(t, store.StatusTaken, s.giveUp(t, other, 1))
	assertStatus(t, store.StatusHeld, s.renew(t, "name", holder, long), "nothing has freed it")
	requireStatus(t, store.StatusHeld, s.release(t, "name", holder))
	s.own(t, "name", newOwner(), long)
}

func claimGranted(t *testing.T, s *suite) {
	holder, a := newOwner(), placeOwner(1)
	if !s.line(t, holder, 1, 2) {
		return
	}
	before := s.acquire(t, "name", holder, long).Fence
	requireStatus(t, store.StatusHeld, s.release(t, "name", holder))
	refused := s.from(t, placeOwner(2), 2)
	requireRefused(t, refused, "it is another's")
	require.Equal(t, "place 1", refused.Holder.Operation, "as its claim has said")
	requireStatus(t, store.StatusTaken, s.from(t, newOwner(), 0).Status, "and no newcomer's")
	requireStatus(t, store.StatusHeld, s.renew(t, "name", a, long), "though it has not asked since")
	g := s.from(t, a, 1)
	requireStatus(t, store.StatusHeld, g.Status)
	require.Greater(t, g.Fence, before)
	again := s.from(t, a, 1)
	requireStatus(t, store.StatusHeld, again.Status)
	require.Equal(t, g.Fence, again.Fence, "the same grant")
	require.False(t, again.Late, "that is told once")
	requireStatus(t, store.StatusHeld, s.release(t, "name", a))
	next := s.from(t, placeOwner(2), 2)
	requireStatus(t, store.StatusHeld, next.Status)
	require.Greater(t, next.Fence, g.Fence+int64(g.Reserved))
}

func firstTTL(t *testing.T, s *suite) {
	holder := newOwner()
	if !s.lineFor(t, holder, long/2, 1) {
		return
	}
	requireStatus(t, store.StatusQueued, s.fromFor(t, placeOwner(1), 1, long).Status)
	requireStatus(t, store.StatusHeld, s.release(t, "name", holder))
	g := s.from(t, newOwner(), 0)
	requireStatus(t, store.StatusTaken, g.Status)
	require.Positive(t, g.TTL)
	require.LessOrEqual(t, g.TTL, long/2, "that of the first claim")
	g = s.fromFor(t, placeOwner(1), 1, long)
	requireStatus(t, store.StatusHeld, g.Status)
	require.False(t, g.Late, "a claim that differs is answered for itself")
	require.Greater(t, s.from(t, newOwner(), 0).TTL, long/2)
}

func rankKept(t *testing.T, s *suite) {
	holder := newOwner()
	if !s.line(t, holder, 1, 2, 3) {
		return
	}
	require.Equal(t, store.StatusQueued, s.from(t, placeOwner(1), 1).Status)
	require.Equal(t, store.StatusQueued, s.from(t, placeOwner(2), 2).Status)
	for place := uint64(1); place <= 3; place++ {
		requireStatus(t, store.StatusHeld, s.release(t, "name", holder))
		holder = placeOwner(place)
		requireStatus(t, store.StatusHeld, s.from(t, holder, place).Status,
			"it is place %d's", place)
	}
}

func grantPassedOn(t *testing.T, s *suite) {
	holder := newOwner()
	if !s.line(t, holder, 1, 2, 3) {
		return
	}
	requireStatus(t, store.StatusTaken, s.giveUp(t, placeOwner(2), 2), "in line")
	requireStatus(t, store.StatusHeld, s.release(t, "name", holder))
	requireStatus(t, store.StatusHeld, s.giveUp(t, placeOwner(1), 1), "which has it")
	requireStatus(t, store.StatusHeld, s.from(t, placeOwner(3), 3).Status, "it is the last's")
	requireStatus(t, store.StatusHeld, s.release(t, "name", placeOwner(3)))
	s.own(t, "name", newOwner(), long)
}

func placeGivenUpAgain(t *testing.T, s *suite) {
	holder := newOwner()
	if !s.line(t, holder, 1, 2) {
		return
	}
	requireStatus(t, store.StatusHeld, s.release(t, "name", holder))
	requireStatus(t, store.StatusHeld, s.from(t, placeOwner(1), 1).Status)
	requireStatus(t, store.StatusHeld, s.giveUp(t, placeOwner(1), 1))
	requireStatus(t, store.StatusTaken, s.giveUp(t, placeOwner(1), 1), "it is the other's")
	requireStatus(t, store.StatusHeld, s.renew(t, "name", placeOwner(2), long))
	requireStatus(t, store.StatusHeld, s.from(t, placeOwner(2), 2).Status)
}

func grantLapses(t *testing.T, s *suite) {
	holder := newOwner()
	if !s.lineFor(t, holder, s.short, 1, 2) {
		return
	}
	requireStatus(t, store.StatusHeld, s.release(t, "name", holder))
	s.wait(t, s.short+10*time.Millisecond)
	requireStatus(t, store.StatusHeld, s.from(t, newOwner(), 0).Status)
	g := s.fromFor(t, placeOwner(1), 1, s.short)
	if g.Late { // of then
		g = s.fromFor(t, placeOwner(1), 1, s.short)
	}
	requireRefused(t, g, "its time is over")
}

func wokenBehindALostLine(t *testing.T, s *suite) {
	s.wokenBehindALostLine(t, func(holder string) {
		requireStatus(t, store.StatusHeld, s.release(t, "name", holder))
	})
}

func wokenByRenewalOfALostLine(t *testing.T, s *suite) {
	s.wokenBehindALostLine(t, func(holder string) {
		s.Delete("name")
		s.requireGone(t, s.renew(t, "name", holder, long))
	})
}

func wokenByReleaseOfALostLine(t *testing.T, s *suite) {
	s.wokenBehindALostLine(t, func(holder string) {
		s.Delete("name")
		s.requireGone(t, s.release(t, "name", holder))
	})
}

// requireGone requires that a lease is found gone, for which claims were
// refused: see [Fixture.Several].
func (s *suite) requireGone(t *testing.T, got store.Status) {
	t.Helper()
	if !s.Several || got != store.StatusTaken {
		requireStatus(t, store.StatusGone, got)
	}
}

// wokenBehindALostLine is about those who stand in a line that is lost: no
// place is left to be told, so that all must be. It asks for two wake-ups,
// since the first may be due to something else, such as a watch that is set up
// for it.
func (s *suite) wokenBehindALostLine(t *testing.T, end func(holder string)) {
	t.Helper()
	if s.Delete == nil || s.Lines && s.DeleteLine == nil {
		return
	}
	holder := newOwner()
	s.line(t, holder, 1, 2)
	w := s.watch("name")
	defer w.stop()
	for range 2 {
		if s.Lines {
			s.DeleteLine("name")
		}
		w.clear()
		end(holder)
		w.await(t, s, "the line was lost, and the name is free")
		s.obtain(t, "name", holder)
		s.until(t, "a place in line", func() bool {
			return s.from(t, placeOwner(1), 1).Status == store.StatusQueued || !s.Lines
		})
	}
}
