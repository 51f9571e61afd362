package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/renewer/store"
)

var releaseCases = []testCase{
	{"a release frees", releaseFrees},
	{"a release can be repeated", releaseRepeated},
	{"only the owner releases", releaseCompares},
	{"a release may take effect later", releaseLater},
	{"a release may be put off", releasePutOff},
	{"only the owner puts off a release", releaseLaterCompares},
}

func (s *suite) releaseIn(t *testing.T, owner string, d time.Duration) store.Status {
	t.Helper()
	return s.holds(t, s.Store.Release,
		[]store.Hold{{Name: "name", Owner: owner, TTL: long, Keep: d}})[0]
}

func releaseLater(t *testing.T, s *suite) {
	a, b := newOwner(), newOwner()
	s.own(t, "name", a, long)
	assertStatus(t, store.StatusHeld, s.releaseIn(t, a, s.short))
	g := s.refused(t, "name", b)
	if !s.Blind {
		assert.LessOrEqual(t, g.TTL, s.short, "shorter than the lease's own")
		assert.Positive(t, g.TTL)
	}
	s.wait(t, s.short+10*time.Millisecond)
	s.obtain(t, "name", b)
}

func releasePutOff(t *testing.T, s *suite) {
	a, b := newOwner(), newOwner()
	s.own(t, "name", a, s.short)
	assertStatus(t, store.StatusHeld, s.releaseIn(t, a, long))
	s.wait(t, s.short+10*time.Millisecond)
	s.refused(t, "name", b)
	assertStatus(t, store.StatusHeld, s.release(t, "name", a), "and may be put forward again")
	s.obtain(t, "name", b)
}

func releaseLaterCompares(t *testing.T, s *suite) {
	a, b := newOwner(), newOwner()
	assertStatus(t, store.StatusGone, s.releaseIn(t, a, s.short), "nothing is made")
	s.own(t, "name", a, long)
	assertStatus(t, store.StatusTaken, s.releaseIn(t, b, s.short))
	s.wait(t, s.short+10*time.Millisecond)
	assertStatus(t, store.StatusHeld, s.renew(t, "name", a, long))
}

func releaseFrees(t *testing.T, s *suite) {
	a, b := newOwner(), newOwner()
	s.own(t, "name", a, long)
	s.refused(t, "name", b)
	assertStatus(t, store.StatusHeld, s.release(t, "name", a))
	s.obtain(t, "name", b)
}

func releaseRepeated(t *testing.T, s *suite) {
	a, b := newOwner(), newOwner()
	assertStatus(t, store.StatusGone, s.release(t, "name", a), "never acquired")
	s.own(t, "name", a, long)
	assertStatus(t, store.StatusHeld, s.release(t, "name", a))
	assertStatus(t, store.StatusGone, s.release(t, "name", a))
	s.own(t, "name", b, long)
	assertStatus(t, store.StatusTaken, s.release(t, "name", a), "a late release")
	assertStatus(t, store.StatusHeld, s.renew(t, "name", b, long), "cannot touch the successor")
}

func releaseCompares(t *testing.T, s *suite) {
	a, b := newOwner(), newOwner()
	s.own(t, "name", a, long)
	assertStatus(t, store.StatusTaken, s.release(t, "name", b))
	assertStatus(t, store.StatusTaken, s.release(t, "name", a[:len(a)-1]+"_"),
		"all of the token counts")
	assertStatus(t, store.StatusTaken, s.release(t, "name", "_"+a[1:]))
	assertStatus(t, store.StatusHeld, s.renew(t, "name", a, long))
}
