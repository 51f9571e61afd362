package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
)

// beginCases are for acquires that depend on the record, and begin a term.
var beginCases = []testCase{
	{"an acquire begins a term", recorded(begunTerm)},
	{"an acquire after another record", recorded(begunAfterAnother)},
	{"an acquire without a first record", recorded(begunWithoutData)},
	{"an acquire that is refused begins no term", recorded(refusedTerm)},
	{"a record that has changed is shown though the name is taken", recorded(changedAndHeld)},
	{"terms and none in one batch", recorded(begunInBatch)},
	{"a term without a TTL", recorded(begunWithoutTTL)},
	{"one of many begins the term", recorded(oneBegins)},
}

// after makes a term for acquires after a record. Its name and token are to be ignored.
func after(fence, seq int64, data string) *renewer.Term {
	term := &renewer.Term{Name: "another", Fence: 3, TTL: long, Data: data}
	term.After.Fence, term.After.Seq = fence, seq
	return term
}

// begin acquires "name" with a term, and requires of what is shown that it is the record.
func (s *recordSuite) begin(
	t testing.TB, owner string, place uint64, term *renewer.Term,
) renewer.Grant {
	t.Helper()
	claim := renewer.Claim{
		Name: "name", Owner: owner, TTL: long, Place: place, Term: term,
	}
	ctx, cancel := context.WithTimeout(t.Context(), callBy)
	defer cancel()
	grants := s.Store.Acquire(ctx, []renewer.Claim{claim})
	require.Len(t, grants, 1)
	g := grants[0]
	require.NoError(t, g.Err)
	if g.Status == renewer.StatusTaken {
		require.Nil(t, g.Seen)
		return g
	}
	require.NotNil(t, g.Seen)
	s.sane(t, "name", *g.Seen)
	requireStatus(t, renewer.StatusHeld, g.Seen.Status)
	s.sees(t, g.Seen.Fence, g.Seen.Seq, g.Seen.Data)
	if g.Status == renewer.StatusChanged {
		requireGrant(t, renewer.Grant{Status: renewer.StatusChanged, Seen: g.Seen}, g)
	}
	return g
}

// shown requires of a grant which record it shows.
func shown(t testing.TB, g renewer.Grant, fence, seq int64, data string) {
	t.Helper()
	require.Equal(t, []any{fence, seq, data}, []any{g.Seen.Fence, g.Seen.Seq, g.Seen.Data})
}

func begunTerm(t *testing.T, s *recordSuite) {
	owner := newOwner()
	g := s.begin(t, owner, 4, after(0, 0, "first"))
	requireStatus(t, renewer.StatusHeld, g.Status)
	shown(t, g, g.Fence, 1, "first")
	again := s.begin(t, owner, 4, after(0, 0, "first")) // its answer was lost
	requireStatus(t, renewer.StatusHeld, again.Status)
	require.Equal(t, g.Fence, again.Fence)
	shown(t, again, g.Fence, 1, "first")
	requireStatus(t, renewer.StatusHeld, s.write(t, g.Fence, 2, "second", long))
	again = s.begin(t, owner, 4, after(0, 0, "first"))
	require.Equal(t, g.Fence, again.Fence)
	shown(t, again, g.Fence, 2, "second")
	require.Zero(t, s.reads(t, "another")[0].Fence)
}

func begunAfterAnother(t *testing.T, s *recordSuite) {
	owner := newOwner()
	first := s.begin(t, owner, 0, after(0, 0, "first"))
	requireStatus(t, renewer.StatusHeld, s.release(t, "name", owner))

	for _, term := range []*renewer.Term{
		after(0, 0, "x"), after(first.Fence, 2, "x"), after(first.Fence+1, 1, "x"), after(0, 0, ""),
	} {
		g := s.begin(t, newOwner(), 7, term)
		requireStatus(t, renewer.StatusChanged, g.Status)
		shown(t, g, first.Fence, 1, "first")
	}
	requireStatus(t, renewer.StatusHeld, s.write(t, first.Fence, 2, "late", long),
		"no term has begun")

	owner = newOwner()
	second := s.begin(t, owner, 0, after(first.Fence, 2, "second"))
	requireStatus(t, renewer.StatusHeld, second.Status, "the name is free")
	shown(t, second, second.Fence, 1, "second")
	requireStatus(t, renewer.StatusTaken, s.write(t, first.Fence, 3, "late", long))
	requireStatus(t, renewer.StatusHeld, s.release(t, "name", owner))
	s.own(t, "name", newOwner(), long)
}

func begunWithoutData(t *testing.T, s *recordSuite) {
	owner := newOwner()
	first := s.begin(t, owner, 0, after(0, 0, ""))
	shown(t, first, 0, 0, "")
	requireStatus(t, renewer.StatusHeld, s.write(t, first.Fence, 1, "first", long))
	requireStatus(t, renewer.StatusHeld, s.release(t, "name", owner))
	second := s.begin(t, newOwner(), 0, after(first.Fence, 1, ""))
	requireStatus(t, renewer.StatusHeld, second.Status)
	shown(t, second, first.Fence, 1, "first")
	requireStatus(t, renewer.StatusTaken, s.write(t, first.Fence, 2, "late", long))
}

func refusedTerm(t *testing.T, s *recordSuite) {
	s.own(t, "name", newOwner(), long)
	g := s.begin(t, newOwner(), 0, after(0, 0, "x"))
	requireStatus(t, renewer.StatusTaken, g.Status)
	s.sees(t, 0, 0, "")
	requireStatus(t, renewer.StatusHeld, // with the lowest token that there is
		s.prepares(t, renewer.Term{Name: "name", Fence: 1, TTL: long})[0].Status)
}

func changedAndHeld(t *testing.T, s *recordSuite) {
	owner := newOwner()
	first := s.begin(t, owner, 0, after(0, 0, "first"))
	g := s.begin(t, newOwner(), 9, after(0, 0, "x"))
	requireStatus(t, renewer.StatusChanged, g.Status)
	shown(t, g, first.Fence, 1, "first")
	requireStatus(t, renewer.StatusHeld, s.renew(t, "name", owner, long))
	requireStatus(t, renewer.StatusHeld, s.release(t, "name", owner))
	s.own(t, "name", newOwner(), long) // nothing was put in line
}

func begunInBatch(t *testing.T, s *recordSuite) {
	claims := []renewer.Claim{
		{Name: "a", Owner: newOwner(), TTL: long},
		{Name: "b", Owner: newOwner(), TTL: long, Term: after(0, 0, "x")},
		{Name: "c", Owner: newOwner(), TTL: long, Term: after(1, 1, "x")},
		{Name: "d", Owner: newOwner(), TTL: long},
	}
	ctx, cancel := context.WithTimeout(t.Context(), callBy)
	defer cancel()
	grants := s.Store.Acquire(ctx, claims)
	require.Len(t, grants, len(claims), "one answer an item")
	for i, g := range grants {
		require.NoError(t, g.Err)
		want := renewer.StatusHeld
		if i == 2 {
			want = renewer.StatusChanged
		}
		requireStatus(t, want, g.Status, "%q", claims[i].Name)
	}
	require.Nil(t, grants[0].Seen)
	require.Nil(t, grants[3].Seen)
	shown(t, grants[1], grants[1].Fence, 1, "x")
	shown(t, grants[2], 0, 0, "")
	s.own(t, "c", newOwner(), long)
}

func begunWithoutTTL(t *testing.T, s *recordSuite) {
	for _, ttl := range []time.Duration{-time.Hour, 0, time.Millisecond - 1} {
		term := after(0, 0, "x")
		term.TTL = ttl
		ctx, cancel := context.WithTimeout(t.Context(), callBy)
		defer cancel()
		g := s.Store.Acquire(ctx, []renewer.Claim{
			{Name: "name", Owner: newOwner(), TTL: long, Term: term},
		})[0]
		requireStatus(t, renewer.StatusUnknown, g.Status)
		require.Error(t, g.Err)
	}
	s.sees(t, 0, 0, "")
	s.own(t, "name", newOwner(), long)
}

// oneBegins has many want to follow the same record, again and again: each time one is granted the
// name, and the others learn of its record at the latest when they ask once more.
func oneBegins(t *testing.T, s *recordSuite) {
	const rivals, rounds = 64, 3
	var fence, seq int64
	for round := range rounds {
		var mu sync.Mutex
		var granted []renewer.Grant
		var winner string
		var wg sync.WaitGroup
		for i := range rivals {
			wg.Go(func() {
				owner := newOwner()
				ctx, cancel := context.WithTimeout(t.Context(), callBy)
				defer cancel()
				g := s.Store.Acquire(ctx, []renewer.Claim{{
					Name: "name", Owner: owner, TTL: long,
					Term: after(fence, seq, fmt.Sprint(round, i)),
				}})[0]
				assert.NoError(t, g.Err)
				assert.Contains(t, []renewer.Status{renewer.StatusHeld, renewer.StatusChanged},
					g.Status)
				if g.Status == renewer.StatusHeld {
					mu.Lock()
					defer mu.Unlock()
					granted, winner = append(granted, g), owner
				}
			})
		}
		wg.Wait()
		require.Len(t, granted, 1)
		shown(t, s.begin(t, newOwner(), 0, after(fence, seq, "x")), granted[0].Fence, 1,
			granted[0].Seen.Data)
		fence, seq = granted[0].Fence, 1
		requireStatus(t, renewer.StatusHeld, s.release(t, "name", winner))
	}
}
