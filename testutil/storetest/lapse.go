package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/store"
)

var lapseCases = []testCase{
	{"a lease lapses at its TTL and not before", lapses},
	{"a lapsed lease has no owner", lapsed},
	{"a renewed lease lapses too", renewedLapses},
	{"a lapsed lease frees nothing of its successor", lapsedRelease},
}

// lapse waits until "name", last given a TTL after since, can be had by
// another, and returns the new owner. The store's time is compared with the
// local clock, unless the test moves it.
func (s *suite) lapse(t *testing.T, since time.Time, ttl time.Duration) (owner string) {
	t.Helper()
	if s.Advance != nil {
		s.Advance(ttl * 3 / 4)
		s.refused(t, "name", newOwner())
		s.Advance(ttl/4 + time.Millisecond)
		owner = newOwner()
		s.own(t, "name", owner, long)
		return owner
	}
	owner = newOwner()
	s.until(t, "the lease lapses", func() bool {
		return s.acquire(t, "name", owner, long).Status == store.StatusHeld
	})
	// A server that counts whole milliseconds may be up to one early.
	require.GreaterOrEqual(t, time.Since(since), ttl-2*time.Millisecond,
		"had by another before its TTL was over")
	return owner
}

func lapses(t *testing.T, s *suite) {
	since := time.Now()
	s.own(t, "name", newOwner(), s.short)
	s.lapse(t, since, s.short)
}

func lapsed(t *testing.T, s *suite) {
	a := newOwner()
	s.own(t, "name", a, s.short)
	s.wait(t, s.short+20*time.Millisecond)
	assertStatus(t, store.StatusGone, s.renew(t, "name", a, long), "a renewal comes too late")
	assertStatus(t, store.StatusGone, s.renew(t, "name", a, long), "and has not made it anew")
	assertStatus(t, store.StatusGone, s.release(t, "name", a))
	s.own(t, "name", newOwner(), long)
}

func renewedLapses(t *testing.T, s *suite) {
	a := newOwner()
	s.own(t, "name", a, s.short)
	s.wait(t, s.short/8)
	since := time.Now()
	requireStatus(t, store.StatusHeld, s.renew(t, "name", a, s.short))
	s.lapse(t, since, s.short)
}

func lapsedRelease(t *testing.T, s *suite) {
	a := newOwner()
	since := time.Now()
	s.own(t, "name", a, s.short)
	b := s.lapse(t, since, s.short)
	assertStatus(t, store.StatusTaken, s.renew(t, "name", a, long))
	assertStatus(t, store.StatusTaken, s.release(t, "name", a))
	assertStatus(t, store.StatusHeld, s.renew(t, "name", b, long), "the successor still has it")
	s.refused(t, "name", a)
}
