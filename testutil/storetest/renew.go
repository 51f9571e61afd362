package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/store"
)

var renewCases = []testCase{
	{"a renewal keeps a lease", renewKeeps},
	{"a renewal never shortens a TTL", renewNeverShortens},
	{"a renewal never makes a name", renewNeverMakes},
	{"only the owner renews", renewCompares},
	{"a deleted name is gone", deleted},
	{"an overwritten name is taken", overwritten},
	{"who has a name that is lost", taker},
}

func renewKeeps(t *testing.T, s *suite) {
	a, ttl := newOwner(), 2*s.short // a busy machine may be late with a renewal
	s.own(t, "name", a, ttl)
	for range 5 {
		s.wait(t, ttl/4)
		requireStatus(t, store.StatusHeld, s.renew(t, "name", a, ttl))
		s.refused(t, "name", newOwner())
	}
}

func renewNeverShortens(t *testing.T, s *suite) {
	a := newOwner()
	s.own(t, "name", a, long)
	requireStatus(t, store.StatusHeld, s.renew(t, "name", a, time.Millisecond),
		"it still is the owner's")
	// so long that a quorum takes it for held, rather than for another's that
	// is being asked for
	s.wait(t, 50*time.Millisecond)
	g := s.refused(t, "name", newOwner())
	if !s.Blind {
		assert.Greater(t, g.TTL, long/2)
	}
	assertStatus(t, store.StatusHeld, s.renew(t, "name", a, long))
}

func renewNeverMakes(t *testing.T, s *suite) {
	a := newOwner()
	assertStatus(t, store.StatusGone, s.renew(t, "name", a, long), "never acquired")
	assertStatus(t, store.StatusGone, s.renew(t, "name", a, long))
	s.own(t, "name", a, long)
	requireStatus(t, store.StatusHeld, s.release(t, "name", a))
	assertStatus(t, store.StatusGone, s.renew(t, "name", a, long), "released")
	s.own(t, "name", newOwner(), long)
}

func renewCompares(t *testing.T, s *suite) {
	a, b := newOwner(), newOwner()
	since := time.Now()
	s.own(t, "name", a, s.short)
	assertStatus(t, store.StatusTaken, s.renew(t, "name", b, long))
	assertStatus(t, store.StatusTaken, s.renew(t, "name", a[:len(a)-1]+"_", long),
		"all of the token counts")
	assertStatus(t, store.StatusTaken, s.renew(t, "name", "_"+a[1:], long))
	s.lapse(t, since, s.short) // none of them has moved the end
}

func deleted(t *testing.T, s *suite) {
	if s.Delete == nil {
		return
	}
	a := newOwner()
	fence := s.own(t, "name", a, long)
	s.Delete("name")
	assertStatus(t, store.StatusGone, s.renew(t, "name", a, long))
	assertStatus(t, store.StatusGone, s.release(t, "name", a))
	again := s.own(t, "name", a, long)
	assert.Greater(t, again, fence, "a lease of its own, though the owner is the same")
}

func overwritten(t *testing.T, s *suite) {
	if s.Overwrite == nil {
		return
	}
	a := newOwner()
	s.own(t, "name", a, long)
	s.Overwrite("name")
	assertStatus(t, store.StatusTaken, s.renew(t, "name", a, long))
	assertStatus(t, store.StatusTaken, s.release(t, "name", a))
	s.refused(t, "name", a)
}

// taker asks for a name that another owner has by now, of whom the answers tell
// as far as the store can.
func taker(t *testing.T, s *suite) {
	a, b := newOwner(), newOwner()
	s.own(t, "name", a, long)
	requireStatus(t, store.StatusHeld, s.release(t, "name", a))
	holder := store.Holder{Node: "taker", PID: 2, Operation: "work"}
	requireStatus(t, store.StatusHeld, s.acquireAs(t, "name", b, long, holder).Status)
	holds := []store.Hold{{Name: "name", Owner: a, TTL: long}}
	for name, answers := range map[string][]store.Answer{
		"renew":   s.Store.Renew(t.Context(), holds),
		"release": s.Store.Release(t.Context(), holds),
	} {
		require.Len(t, answers, 1, name)
		assertStatus(t, store.StatusTaken, answers[0].Status, name)
		assert.False(t, answers[0].Foreign, "%s: an owner has it", name)
		if !s.Blind {
			assert.Equal(t, &holder, answers[0].Holder, name)
		}
	}
}
