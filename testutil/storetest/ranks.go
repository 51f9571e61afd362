package storetest

import (
	"testing"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// ranked is a call with a rank, that breaks the lease if it is the newest.
func ranked(rank int64) *caller {
	c := callOf("name", "node")
	c.Newness.Rank, c.Break = rank, true
	return c
}

// begins has a call claim its name.
func (s *suite) begins(t testing.TB, c *caller) store.Status {
	t.Helper()
	return s.acquireAll(t, []store.Claim{{
		Name: c.Name, Owner: c.Owner, TTL: long, Holder: c.By, Newness: c.Newness,
	}})[0].Status
}

// runs has a call claim its name, and free it if it is given it.
func (s *suite) runs(t testing.TB, c *caller) store.Status {
	t.Helper()
	status := s.begins(t, c)
	if status == store.StatusHeld {
		requireStatus(t, store.StatusHeld, s.release(t, c.Name, c.Owner))
	}
	return status
}

// Ranks are any positive number, beyond what a double holds too.
const (
	low, middle, high = 9, 10, 1<<62 + 1
	higher            = high + 1
)

func greaterIsNewest(t *testing.T, s *replaceSuite) {
	first, same, last := ranked(middle), ranked(middle), ranked(high)
	s.isNewest(t, first, "it is the only one")
	s.isOld(t, ranked(low), "its rank is lower, though it comes later")
	s.isNewest(t, same, "of its rank it came later")
	s.isOld(t, first, "of its rank another one came later")
	s.isNewest(t, last, "its rank is greater")
	s.isOld(t, ranked(high-1), "its rank is lower")
	s.isOld(t, same, "its rank is lower")
	s.isNewest(t, last, "its rank is the greatest")
	next := ranked(higher)
	s.isNewest(t, next, "its rank is greater by one")
	s.wait(t, 2*time.Millisecond)
	s.isNewest(t, ranked(0), "without a rank it is the one that was made last")
	s.isNewest(t, callOf("other", "node"), "of its name")
}

func olderBeginsNot(t *testing.T, s *replaceSuite) {
	requireStatus(t, store.StatusHeld, s.runs(t, ranked(middle)), "the name is free")
	requireStatus(t, store.StatusReplaced, s.runs(t, ranked(low)), "a newer one has run")
	s.isOld(t, ranked(low), "a newer one has run")
	again := ranked(middle)
	s.isNewest(t, again, "it is the same work again")
	requireStatus(t, store.StatusHeld, s.runs(t, again), "it is the same work again")

	newest := ranked(higher)
	requireStatus(t, store.StatusHeld, s.begins(t, newest), "the name is free")
	requireStatus(t, store.StatusHeld, s.begins(t, newest), "its answer was lost")
	requireStatus(t, store.StatusReplaced, s.begins(t, ranked(high)), "and not taken")
	s.isOld(t, ranked(high), "a newer one runs")
	requireStatus(t, store.StatusHeld, s.renew(t, "name", newest.Owner, long), "none has broken it")
	requireStatus(t, store.StatusTaken, s.begins(t, ranked(higher)), "it is as new")
	requireStatus(t, store.StatusHeld, s.release(t, "name", newest.Owner))

	requireStatus(t, store.StatusHeld, s.acquire(t, "name", "plain-call-of-22-bytes", long).Status,
		"one that gives way to none")
	requireStatus(t, store.StatusHeld, s.release(t, "name", "plain-call-of-22-bytes"))
	s.wait(t, 2*time.Millisecond)
	requireStatus(t, store.StatusHeld, s.runs(t, callOf("name", "node")), "made now")
	requireStatus(t, store.StatusReplaced, s.runs(t, ranked(high)), "and that hides no rank")
	other := ranked(low)
	other.Name = "other"
	requireStatus(t, store.StatusHeld, s.runs(t, other), "of its name")
}

// ageCounts is about calls that reach the store in another order than they were
// made in.
func ageCounts(t *testing.T, s *replaceSuite) {
	aged := func() *caller {
		c := callOf("name", "node")
		c.Newness.Age = time.Hour
		return c
	}
	waits := callOf("name", "node")
	s.isNewest(t, waits, "it is the only one")
	s.isOld(t, aged(), "it was made before")
	s.isNewest(t, waits, "it was made last")
	s.over(t, waits)
	s.isNewest(t, aged(), "none is noted")
	requireStatus(t, store.StatusHeld, s.runs(t, waits), "the name is free")
	requireStatus(t, store.StatusReplaced, s.runs(t, aged()), "it was made before one that has run")
	s.wait(t, 2*time.Millisecond)
	requireStatus(t, store.StatusHeld, s.runs(t, callOf("name", "node")), "it is made now")
}

func begunLapses(t *testing.T, s *replaceSuite) {
	if s.Advance == nil && !s.bubble { // it would take a day
		return
	}
	const spare = 10 * time.Second
	aged := callOf("name", "node")
	aged.Newness.Age = time.Hour
	requireStatus(t, store.StatusHeld, s.runs(t, callOf("name", "node")), "the name is free")
	s.wait(t, contract.NoteTTL-spare)
	requireStatus(t, store.StatusReplaced, s.runs(t, aged), "a newer one has run")
	s.wait(t, 2*spare)
	requireStatus(t, store.StatusHeld, s.runs(t, aged), "a while ago")
	requireStatus(t, store.StatusHeld, s.runs(t, ranked(middle)), "the name is free")
	s.wait(t, contract.RankTTL-contract.NoteTTL)
	s.wait(t, 2*time.Millisecond)
	requireStatus(t, store.StatusHeld, s.runs(t, callOf("name", "node")), "made now")
	s.wait(t, contract.NoteTTL-spare)
	requireStatus(t, store.StatusReplaced, s.runs(t, ranked(low)), "a newer one has run")
	s.wait(t, 2*spare)
	requireStatus(t, store.StatusHeld, s.runs(t, ranked(low)), "a day ago")
}
