package doctor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/doctor"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// Who may not write does not hear that all is well, whatever is read.
func TestPausedWritesAreNotWell(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	require.NoError(t, s.Do(append(strings.Fields("ACL SETUSER looks on nopass ~lockbeat:{* -@all "+
		"+info +config|get"), strings.Fields(doctor.Rights()[4])...)...).Error())
	require.NoError(t, s.Do("CLIENT", "PAUSE", "600000", "WRITE").Error())
	text, found, status := examine(t, "LOCKBEAT_URL=redis://looks:any@"+s.Addr())
	assert.Equal(t, 3, status, text)
	assert.Contains(t, found["writes"], "unknown this user may not write, so none was tried")
	require.NoError(t, s.Do("CLIENT", "UNPAUSE").Error())
}

// A server that runs a script answers nothing else: that is said, and what ends
// it.
func TestAScriptThatRunsForLong(t *testing.T) {
	t.Parallel()
	for end, run := range map[string][]string{
		"SCRIPT KILL":   {"EVAL", "while true do end", "0"},
		"FUNCTION KILL": {"FCALL", "spin", "0"},
	} {
		s := redistest.Start(t, "--lua-time-limit", "1")
		err := s.Do("FUNCTION", "LOAD", "#!lua name=l\n"+
			"redis.register_function('spin', function() while true do end end)").Error()
		if err != nil && run[0] == "FCALL" {
			continue // it is older than functions
		}
		ended, spins := make(chan struct{}), s.Client(t) // on which nothing waits behind it
		go func() {
			defer close(ended)
			// The error says that it was ended.
			_ = spins.Do(t.Context(), spins.B().Arbitrary(run...).Build())
		}()
		require.Eventually(t, func() bool {
			err := s.Do("PING").Error()
			return err != nil && strings.Contains(err.Error(), "BUSY")
		}, 20*time.Second, time.Millisecond)
		_, found, status := examine(t, url(s))
		assert.Equal(t, 2, status)
		assert.Contains(t, found["connection"], "`redis-cli "+end+"` ends it")
		require.NoError(t, s.Do(strings.Fields(end)...).Error())
		<-ended
	}
}
