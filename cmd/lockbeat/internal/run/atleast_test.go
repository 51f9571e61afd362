//go:build linux

package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// Nodes begin a tick of their crontabs one after the other, and the job is
// short: the second node finds the lock held, although the process that took it
// has ended.
func TestShortJobRunsOncePerTick(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ran := filepath.Join(t.TempDir(), "ran")
	for tick := range 2 {
		for range 2 { // nodes
			out, stderr, status := outcome(t, server.Addr(), "--name=report", "--skip",
				"--at-least=20m", "--", "sh", "-c", "echo ran >> "+ran)
			assert.Zero(t, status)
			assert.Empty(t, out+stderr)
		}
		text, err := os.ReadFile(ran)
		require.NoError(t, err)
		assert.Equal(t, tick+1, strings.Count(string(text), "ran"))
		d, held := left(t, server, key("report"))
		assert.True(t, held, "by no process, and not for longer than was asked for")
		assert.Greater(t, d, 10*time.Minute)
		assert.LessOrEqual(t, d, 20*time.Minute)
		// The time until the next tick.
		require.NoError(t, server.Do("PEXPIRE", key("report"), "1").Error())
		awaitFree(t, server, "report")
	}
}

// A command that has failed, or that a signal has ended, may have done a part
// of its work: the next run is that of the next tick. One that was never begun
// has done nothing.
func TestWhatHoldsAtLeast(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	garbage := filepath.Join(t.TempDir(), "garbage")
	require.NoError(t, os.WriteFile(garbage, []byte("\x01"), 0o700))
	args := func(name string, command ...string) []string {
		return append([]string{"--name=" + name, "--at-least=20m", "--"}, command...)
	}
	for name, c := range map[string]struct {
		command []string
		status  int
		holds   bool
	}{
		"ended":   {[]string{"true"}, 0, true},
		"failed":  {[]string{"sh", "-c", "exit 3"}, 3, true},
		"killed":  {[]string{"sh", "-c", "kill -KILL $$"}, 137, true},
		"garbage": {[]string{garbage}, 126, false},
		"missing": {[]string{"no-such-command"}, 127, false},
	} {
		_, stderr, status := outcome(t, server.Addr(), args(name, c.command...)...)
		assert.Equal(t, c.status, status, "%s: %s", name, stderr)
		_, held := left(t, server, key(name))
		assert.Equal(t, c.holds, held, name)
	}

	p := start(t, server.Addr(), args("signalled", "sh", "-c", "echo up; exec sleep 1000")...)
	p.expect("up")
	p.signal(syscall.SIGTERM)
	assert.Equal(t, 143, p.status())
	_, held := left(t, server, key("signalled"))
	assert.True(t, held)

	waiter := start(t, server.Addr(), args("signalled", "true")...)
	awaitLine(t, server, "signalled")
	waiter.signal(syscall.SIGTERM)
	assert.Equal(t, 143, waiter.status())
	d, _ := left(t, server, key("signalled"))
	assert.LessOrEqual(t, d, 20*time.Minute, "who waits in vain holds nothing")
}

// A slot of a limit is kept as a lock is.
func TestSlotIsHeldAtLeast(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	args := []string{"--name=k", "--at-most=2", "--skip", "--at-least=20m", "--", "echo", "ran"}
	for _, want := range []string{"ran\n", "ran\n", ""} {
		out, _, status := outcome(t, server.Addr(), args...)
		assert.Zero(t, status)
		assert.Equal(t, want, out)
	}
}
