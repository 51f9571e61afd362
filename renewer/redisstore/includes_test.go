package redisstore_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/script"
)

// A line that includes a file and is left as it is would be a comment to the
// server: part of the script would be missing, and nothing would say so.
func TestEveryIncludedFileIsThere(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]script.Script{
		"acquire": script.Acquire, "propose": script.Propose, "begin": script.Begin,
		"renew": script.Renew, "release": script.Release, "probe": script.Probe,
		"slots_acquire": script.SlotsAcquire, "slots_renew": script.SlotsRenew,
		"slots_release": script.SlotsRelease, "break": script.Break,
		"slots_break": script.SlotsBreak, "notice": script.Notice, "newest": script.Newest,
		"look": script.Look, "write": script.Write, "arrive": script.Arrive, "next": script.Next,
	} {
		command, text := s.Called(true)
		assert.Equal(t, "EVAL", command)
		assert.NotContains(t, text, "-- include ", name)
		assert.Greater(t, len(text), 100, name)
		command, sha := s.Called(false)
		assert.Equal(t, "EVALSHA", command)
		assert.Len(t, sha, 40, name)
	}
}
