package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
)

var fenceCases = []testCase{
	{"fencing tokens rise over releases", fenceOverReleases},
	{"fencing tokens rise over lapses", fenceOverLapses},
	{"fencing tokens rise over interference", fenceOverInterference},
}

func fenceOverReleases(t *testing.T, s *suite) {
	var last int64
	for range 200 { // fast enough to fall into one microsecond now and then
		owner := newOwner()
		fence := s.own(t, "name", owner, long)
		require.Greater(t, fence, last)
		last = fence
		require.Equal(t, renewer.Mine, s.release(t, "name", owner))
	}
}

func fenceOverLapses(t *testing.T, s *suite) {
	const ttl = 20 * time.Millisecond
	same := newOwner()
	var last int64
	for i := range 6 {
		owner := same
		if i%2 == 0 {
			owner = newOwner()
		}
		fence := s.own(t, "name", owner, ttl)
		assert.Greater(t, fence, last, "a new grant, even to an owner that had the name before")
		last = fence
		s.pass(t, ttl+10*time.Millisecond)
	}
}

func fenceOverInterference(t *testing.T, s *suite) {
	var last int64
	for range 3 {
		fence := s.own(t, "name", newOwner(), long)
		assert.Greater(t, fence, last)
		last = fence
		if s.Delete == nil {
			return
		}
		s.Delete("name")
		if s.Overwrite != nil {
			s.Overwrite("name")
			s.Delete("name")
		}
	}
}
