package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/store"
)

var placeCases = []testCase{
	{"a place is no owner", placeIsNoOwner},
	{"a turn is its place's, for any owner, once", turnOnce},
	{"a place keeps its rank when its owner changes", rankKept},
	{"a place that is given up passes its turn on", turnPassedOn},
	{"a place that is given up again frees nothing", placeGivenUpAgain},
	{"a turn that lapses is for the owner who asks", turnLapses},
	{"a release behind a line that was lost wakes", wokenBehindALostLine},
	{"a renewal that finds name and line lost wakes", wokenByRenewalOfALostLine},
	{"a release that finds name and line lost wakes", wokenByReleaseOfALostLine},
}

// from asks for "name" from a place.
func (s *suite) from(t testing.TB, owner string, place uint64) store.Grant {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callBy)
	defer cancel()
	grants := s.Store.Acquire(ctx,
		[]store.Claim{{Name: "name", Owner: owner, TTL: long, Place: place}})
	require.Len(t, grants, 1)
	require.NoError(t, grants[0].Err)
	return grants[0]
}

// requireRefused requires that another owner has the name, whether or not the place stands in line.
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

// line has an owner hold "name", and places stand in line behind it, in this order. It reports
// false for a store that has no lines.
func (s *suite) line(t *testing.T, holder string, places ...uint64) bool {
	t.Helper()
	s.own(t, "name", holder, long)
	requireRefused(t, s.from(t, newOwner(), places[0]))
	w := s.watch("name")
	t.Cleanup(w.stop)
	w.await(t, s, "its set-up")
	if !s.Lines {
		for _, p := range places {
			g := s.from(t, newOwner(), p)
			require.NotEqual(t, store.StatusQueued, g.Status, "Fixture.Lines")
		}
		return false
	}
	for _, p := range places {
		s.until(t, "a place in line", func() bool {
			return s.from(t, newOwner(), p).Status == store.StatusQueued
		})
	}
	return true
}

func placeIsNoOwner(t *testing.T, s *suite) {
	holder, other := newOwner(), newOwner()
	s.line(t, holder, 1)
	requireRefused(t, s.from(t, other, 1))
	assertStatus(t, store.StatusTaken, s.release(t, "name", other))
	assertStatus(t, store.StatusTaken, s.renew(t, "name", other, long))
	assertStatus(t, store.StatusTaken, s.giveUp(t, other, 1))
	assertStatus(t, store.StatusHeld, s.renew(t, "name", holder, long), "nothing has freed it")
	requireStatus(t, store.StatusHeld, s.release(t, "name", holder))
	s.own(t, "name", newOwner(), long)
}

func turnOnce(t *testing.T, s *suite) {
	holder, a, b := newOwner(), newOwner(), newOwner()
	if !s.line(t, holder, 1, 2) {
		return
	}
	requireStatus(t, store.StatusHeld, s.release(t, "name", holder))
	requireRefused(t, s.from(t, a, 2), "it is not its turn")
	requireStatus(t, store.StatusTaken, s.from(t, b, 0).Status, "it has no turn")
	g := s.from(t, a, 1)
	requireStatus(t, store.StatusHeld, g.Status, "an owner who has never asked before")
	require.Equal(t, g.Fence, s.from(t, a, 1).Fence, "the same grant")
	requireRefused(t, s.from(t, b, 1), "the turn is used up")
	requireStatus(t, store.StatusTaken, s.release(t, "name", b),
		"an owner who asked from the same place frees nothing")
	requireStatus(t, store.StatusHeld, s.renew(t, "name", a, long))
}

func rankKept(t *testing.T, s *suite) {
	holder := newOwner()
	if !s.line(t, holder, 1, 2, 3) {
		return
	}
	require.Equal(t, store.StatusQueued, s.from(t, newOwner(), 1).Status)
	require.Equal(t, store.StatusQueued, s.from(t, newOwner(), 2).Status)
	for place := range uint64(3) {
		requireStatus(t, store.StatusHeld, s.release(t, "name", holder))
		holder = newOwner()
		requireStatus(t, store.StatusHeld, s.from(t, holder, place+1).Status,
			"it is place %d's turn", place+1)
	}
}

func turnPassedOn(t *testing.T, s *suite) {
	holder := newOwner()
	if !s.line(t, holder, 1, 2, 3) {
		return
	}
	requireStatus(t, store.StatusTaken, s.giveUp(t, newOwner(), 2), "in line")
	requireStatus(t, store.StatusHeld, s.release(t, "name", holder))
	s.giveUp(t, newOwner(), 1) // which has the turn
	last := newOwner()
	requireStatus(t, store.StatusHeld, s.from(t, last, 3).Status, "the turn of the last")
	requireStatus(t, store.StatusHeld, s.release(t, "name", last))
	s.own(t, "name", newOwner(), long)
}

func placeGivenUpAgain(t *testing.T, s *suite) {
	holder, next := newOwner(), newOwner()
	if !s.line(t, holder, 1, 2) {
		return
	}
	requireStatus(t, store.StatusHeld, s.release(t, "name", holder))
	requireStatus(t, store.StatusHeld, s.from(t, next, 1).Status)
	requireStatus(t, store.StatusTaken, s.giveUp(t, newOwner(), 1), "it is a lease by now")
	requireRefused(t, s.from(t, newOwner(), 2))
	requireStatus(t, store.StatusHeld, s.release(t, "name", next))
	requireStatus(t, store.StatusTaken, s.giveUp(t, newOwner(), 1), "it is another's turn")
	requireStatus(t, store.StatusHeld, s.from(t, newOwner(), 2).Status)
}

func turnLapses(t *testing.T, s *suite) {
	holder := newOwner()
	if !s.line(t, holder, 1, 2) {
		return
	}
	requireStatus(t, store.StatusHeld, s.release(t, "name", holder))
	last := newOwner()
	g := s.from(t, last, 0)
	requireStatus(t, store.StatusTaken, g.Status)
	require.Positive(t, g.TTL, "until the turn is over")
	require.LessOrEqual(t, g.TTL, time.Minute)
	s.wait(t, g.TTL+10*time.Millisecond)
	requireStatus(t, store.StatusHeld, s.from(t, last, 0).Status)
	requireRefused(t, s.from(t, newOwner(), 1), "its turn is over")
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

// requireGone requires that a lease is found gone, for which claims were refused: see
// [Fixture.Several].
func (s *suite) requireGone(t *testing.T, got store.Status) {
	t.Helper()
	if !s.Several || got != store.StatusTaken {
		requireStatus(t, store.StatusGone, got)
	}
}

// wokenBehindALostLine is about those who stand in a line that is lost: no place is left to be
// told, so that all must be. It asks for two wake-ups, since the first may be due to something
// else, such as a watch that is set up for it.
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
			return s.from(t, newOwner(), 1).Status == store.StatusQueued || !s.Lines
		})
	}
}
