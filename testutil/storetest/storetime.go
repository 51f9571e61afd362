package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// storeTime wants the time of each answer, of readers and of holders alike.
func storeTime(t *testing.T, s *recordSuite) {
	before := s.reads(t, "name")[0].Now
	s.wait(t, 20*time.Millisecond)
	prepared := s.prepares(t, store.Term{Name: "name", Fence: 5, TTL: long})[0].Now
	passed := prepared.Sub(before)
	assert.GreaterOrEqual(t, passed, 20*time.Millisecond-s.slack)
	assert.Less(t, passed, callBy, "it goes as fast as ours")
	assert.False(t, s.reads(t, "name")[0].Now.Before(prepared))
}
