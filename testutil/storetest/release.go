package storetest

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/renewer"
)

var releaseCases = []testCase{
	{"a release frees", releaseFrees},
	{"a release can be repeated", releaseRepeated},
	{"only the owner releases", releaseCompares},
}

func releaseFrees(t *testing.T, s *suite) {
	a, b := newOwner(), newOwner()
	s.own(t, "name", a, long)
	s.refused(t, "name", b)
	assert.Equal(t, renewer.Mine, s.release(t, "name", a))
	s.own(t, "name", b, long)
}

func releaseRepeated(t *testing.T, s *suite) {
	a, b := newOwner(), newOwner()
	assert.Equal(t, renewer.Gone, s.release(t, "name", a), "never acquired")
	s.own(t, "name", a, long)
	assert.Equal(t, renewer.Mine, s.release(t, "name", a))
	assert.Equal(t, renewer.Gone, s.release(t, "name", a))
	s.own(t, "name", b, long)
	assert.Equal(t, renewer.Taken, s.release(t, "name", a), "a late release")
	assert.Equal(t, renewer.Mine, s.renew(t, "name", b, long), "cannot touch the successor")
}

func releaseCompares(t *testing.T, s *suite) {
	a, b := newOwner(), newOwner()
	s.own(t, "name", a, long)
	assert.Equal(t, renewer.Taken, s.release(t, "name", b))
	assert.Equal(t, renewer.Taken, s.release(t, "name", a[:len(a)-1]+"_"), "all of the token counts")
	assert.Equal(t, renewer.Taken, s.release(t, "name", "_"+a[1:]))
	assert.Equal(t, renewer.Mine, s.renew(t, "name", a, long))
}
