package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// newestCases are for stores that are a [contract.Replacer]; others have
// nothing to prove here.
var newestCases = []testCase{
	{"the call that came last is the newest", replacing(lastIsNewest)},
	{"a call that does not wait any more is forgotten", replacing(overIsForgotten)},
	{"a call is forgotten that is not repeated", replacing(noteLapses)},
	{"only the newest call breaks the lease", replacing(newestBreaks)},
	{"a call does not break its own lease", replacing(ownIsKept)},
	{"a late call does not break a newer one's lease", replacing(newerIsKept)},
	{"the process hears of a newer call", replacing(replacedHears)},
	{"the greater rank is the newest", replacing(greaterIsNewest)},
	{"an older call does not begin after a newer one", replacing(olderBeginsNot)},
	{"a call goes by when it was made", replacing(ageCounts)},
	{"who has had the lock is forgotten in time", replacing(begunLapses)},
	{"a newest call and a context that has ended", replacing(replaceEnded)},
}

// replaceSuite is a case's suite with its store as a Replacer.
type replaceSuite struct {
	*suite

	replacer contract.Replacer
}

func replacing(run func(t *testing.T, s *replaceSuite)) func(*testing.T, *suite) {
	return func(t *testing.T, s *suite) {
		if r, ok := s.Store.(contract.Replacer); ok {
			run(t, &replaceSuite{s, r})
		}
	}
}

// caller is a call that is to be the newest, and since when it is.
type caller struct {
	contract.Replacement
}

func callOf(name, node string) *caller {
	return &caller{contract.Replacement{
		Name: name, Owner: newOwner(), By: store.Holder{Node: node, PID: 7, Operation: "call"},
		Newness: store.Newness{Age: 1},
	}}
}

// asks notes a call, and returns since when it is the newest; 0 if it is not.
func (s *replaceSuite) asks(t testing.TB, c *caller) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callBy)
	defer cancel()
	since, err := s.replacer.Replace(ctx, c.Replacement)
	require.NoError(t, err)
	require.GreaterOrEqual(t, since, int64(0))
	return since
}

// isNewest requires that a call is the newest, since when it was if it was
// noted before.
func (s *replaceSuite) isNewest(t testing.TB, c *caller, why string) {
	t.Helper()
	since := s.asks(t, c)
	require.Positive(t, since, why)
	if c.Newness.Since != 0 {
		require.Equal(t, c.Newness.Since, since, why)
	}
	c.Newness.Since = since
}

func (s *replaceSuite) isOld(t testing.TB, c *caller, why string) {
	t.Helper()
	require.Zero(t, s.asks(t, c), why)
}

func (s *replaceSuite) over(t testing.TB, c *caller) {
	t.Helper()
	left := *c
	left.Over = true
	require.Zero(t, s.asks(t, &left))
}

func lastIsNewest(t *testing.T, s *replaceSuite) {
	var calls []*caller
	for range 5 {
		c := callOf("name", "node")
		s.isNewest(t, c, "none came later")
		for _, before := range calls {
			require.Greater(t, c.Newness.Since, before.Newness.Since)
			s.isOld(t, before, "another one came later")
		}
		s.isNewest(t, c, "no older call takes its place")
		calls = append(calls, c)
	}
	other := callOf("other", "node")
	s.isNewest(t, other, "of its name")
	s.isNewest(t, calls[4], "of its name")
	first := *calls[0] // an answer was lost, and with it since when it waits
	first.Newness.Since = 0
	s.isNewest(t, &first, "by what it says it comes now")
	s.isOld(t, calls[4], "it came after it")
}

func overIsForgotten(t *testing.T, s *replaceSuite) {
	a, b, c := callOf("name", "node"), callOf("name", "node"), callOf("name", "node")
	s.isNewest(t, a, "it is the only one")
	s.isNewest(t, b, "it came later")
	s.isNewest(t, c, "it came later")
	s.over(t, b)
	s.isOld(t, a, "it is not the newest that has left")
	s.isNewest(t, c, "another one has left")
	s.over(t, c)
	s.isNewest(t, a, "none is noted")
	s.over(t, a)
	s.over(t, a)
}

func noteLapses(t *testing.T, s *replaceSuite) {
	if s.Advance == nil && !s.bubble { // it would take minutes
		return
	}
	a, b := callOf("name", "node"), callOf("name", "node")
	s.isNewest(t, a, "it is the only one")
	s.isNewest(t, b, "it came later")
	s.wait(t, contract.NoteTTL*3/4)
	s.isNewest(t, b, "it repeats itself")
	s.wait(t, contract.NoteTTL*3/4)
	s.isOld(t, a, "the other one has repeated itself")
	s.wait(t, contract.NoteTTL/2)
	s.isNewest(t, a, "the other one has not")
}

// hears requires that an owner hears at its heartbeat that a call has replaced
// it.
func (s *replaceSuite) hears(t testing.TB, name, owner string, by *caller) {
	t.Helper()
	hold := store.Hold{Name: name, Owner: owner, TTL: long}
	answer := s.answers(t, s.Store.Renew, []store.Hold{hold})[0]
	requireStatus(t, store.StatusBroken, answer.Status)
	require.NotNil(t, answer.Broken, "by whom")
	assert.True(t, answer.Broken.Replaced)
	assert.False(t, answer.Broken.Force)
	assert.Equal(t, by.By.String(), answer.Broken.By)
}

func newestBreaks(t *testing.T, s *replaceSuite) {
	holder := newOwner()
	fence := s.own(t, "name", holder, long)
	old, waits, breaks := callOf("name", "old"), callOf("name", "waits"), callOf("name", "breaks")
	s.isNewest(t, old, "it is the only one")
	s.isNewest(t, waits, "it came later")
	old.Break, breaks.Break = true, true
	s.isOld(t, old, "another one came later")
	requireStatus(t, store.StatusHeld, s.renew(t, "name", holder, long), "nothing has broken it")

	s.isNewest(t, breaks, "it came later")
	s.hears(t, "name", holder, breaks)
	again := callOf("name", "again")
	again.Break = true
	s.isNewest(t, again, "it came later")
	s.hears(t, "name", holder, breaks) // the first is who broke it
	s.refused(t, "name", again.Owner)
	requireStatus(t, store.StatusHeld, s.release(t, "name", holder), "its operation has returned")
	require.Greater(t, s.obtain(t, "name", again.Owner), fence)
	s.isNewest(t, again, "it has the lock")
	requireStatus(t, store.StatusHeld, s.renew(t, "name", again.Owner, long))

	free := callOf("free", "node")
	free.Break = true
	s.isNewest(t, free, "no owner has the name")
	s.own(t, "free", newOwner(), long)
}

func ownIsKept(t *testing.T, s *replaceSuite) {
	c := callOf("name", "node")
	c.Break = true
	s.isNewest(t, c, "it is the only one")
	s.own(t, "name", c.Owner, long) // granted while it asked
	s.isNewest(t, c, "it is the only one")
	requireStatus(t, store.StatusHeld, s.renew(t, "name", c.Owner, long), "it is its own")
	requireStatus(t, store.StatusHeld, s.release(t, "name", c.Owner))
}

// newerIsKept is about a call that was cut off while a newer one got the lock,
// which was noted before, or was granted it at once.
func newerIsKept(t *testing.T, s *replaceSuite) {
	for _, name := range []string{"noted", "at once"} {
		old, newer := callOf(name, "old"), callOf(name, "newer")
		old.Break = true
		s.isNewest(t, old, "it is the only one")
		s.wait(t, 2*time.Millisecond) // by the store's clock the newer one is later
		if name == "noted" {
			s.isNewest(t, newer, "it came later")
			s.over(t, newer) // as if the note had lapsed
		}
		requireStatus(t, store.StatusHeld, s.begins(t, newer), "%q is free", name)
		s.isOld(t, old, "the one that has the lock came later")
		requireStatus(t, store.StatusHeld, s.renew(t, name, newer.Owner, long))
	}
}

// replacedHears is about the process of a call that another one has replaced,
// and of a lease.
func replacedHears(t *testing.T, s *replaceSuite) {
	inspector, ok := s.Store.(store.Inspector)
	if !ok {
		return
	}
	var mu sync.Mutex
	heard := make(map[string]int)
	for _, node := range []string{"caller", "holder"} {
		stop := inspector.OnBreak(store.Holder{Node: node, PID: 7}, func(name string, _ bool) {
			mu.Lock()
			defer mu.Unlock()
			if name == "name" {
				heard[node]++
			}
		})
		defer stop()
	}
	holder := store.Holder{Node: "holder", PID: 7, Operation: "work"}
	s.until(t, "both processes hear", func() bool { // messages may be lost
		owner := newOwner()
		requireStatus(t, store.StatusHeld, s.acquireAs(t, "name", owner, long, holder).Status)
		s.isNewest(t, callOf("name", "caller"), "it comes now")
		newer := callOf("name", "newer")
		newer.Break = true
		s.isNewest(t, newer, "it came later")
		s.over(t, newer)
		requireStatus(t, store.StatusHeld, s.release(t, "name", owner))
		mu.Lock()
		defer mu.Unlock()
		return heard["caller"] > 0 && heard["holder"] > 0
	})
}

func replaceEnded(t *testing.T, s *replaceSuite) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := time.Now()
	since, err := s.replacer.Replace(ctx, callOf("name", "node").Replacement)
	require.ErrorIs(t, err, context.Canceled)
	assert.Zero(t, since)
	assert.Less(t, time.Since(before), callBy)
}
