//go:build linux

package run_test

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// --verbose tells each thing that becomes of the lock, and for whom it is waited; TestHeld and
// TestShortJobRunsOncePerTick see that nothing is told without it.
func TestVerbose(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	first := start(t, server.Addr(), "--name=a b", "-v", "--", "sh", "-c", "echo up; read x")
	first.expect("up")
	// What was written before the command began may be read after what that has
	// written.
	require.Eventually(t, func() bool { return first.stderr.String() != "" }, patience,
		5*time.Millisecond)
	assert.Regexp(t, `^lockbeat: got a b after \S+, fencing token \d+\n$`, first.stderr.String())

	holder := `last seen with \S+ pid \d+ \(sh\), for \S+ by then`
	_, stderr, _ := outcome(t, server.Addr(), "--name=a b", "--skip", "--verbose", "--", "true")
	assert.Regexp(t, `^lockbeat: skipped: a b, `+holder+`\n$`, stderr)

	second := start(t, server.Addr(), "--name=a b", "-v", "--at-least=20m", "--", "true")
	awaitLine(t, server, "a b")
	require.NoError(t, first.stdin.Close())
	first.wait()
	assert.Regexp(t, `\nlockbeat: freed a b\n$`, first.stderr.String())
	require.Zero(t, second.status())
	assert.Regexp(t, `^lockbeat: waiting for a b, `+holder+`\nlockbeat: got a b after .*\n`+
		`lockbeat: a b stays held for 19m\d\ds more, as --at-least says\n$`, second.stderr.String())
}

// Of a limit it is told how many have it, and of a loss when it happens.
func TestVerboseOfALimitAndALoss(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := start(t, server.Addr(), "--name=k", "--at-most=1", "--", "sh", "-c", "echo up; read x")
	holder.expect("up")
	_, stderr, _ := outcome(t, server.Addr(),
		"--name=k", "--at-most=1", "--skip", "-v", "--", "true")
	assert.Regexp(t, `^lockbeat: skipped: k, which 1 have, last seen with `, stderr)
	require.NoError(t, holder.stdin.Close())
	holder.wait()
	link := proxy.Start(t, server.Addr())
	p := start(t, link.Addr(), "--name=k", "--at-most=1", "-v", "--ttl=2s", "--", "sh", "-c",
		"echo up; exec sleep 1000")
	p.expect("up")
	link.Blackhole(proxy.Both)
	assert.Equal(t, 76, p.status())
	stderr = p.stderr.String()
	assert.Contains(t, stderr, "lockbeat: the command was ended: ")
	// On a busy machine its guard ends the command before the loss, of which
	// nothing is told then.
	assert.LessOrEqual(t, strings.Count(stderr, "; the command is being ended\n"), 1)
}

// A person at a terminal is told why nothing happens.
func TestTerminalIsToldOfTheWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	first := start(t, server.Addr(), "--name=k", "--", "sh", "-c", "echo up; read x")
	first.expect("up")
	keyboard, screen := openTerminal(t)
	p := prepare(t, server.Addr(), "--name=k", "--", "true")
	p.cmd.Stderr = screen
	p.begin()
	line, err := bufio.NewReader(keyboard).ReadString('\n')
	require.NoError(t, err)
	assert.Regexp(t, `^lockbeat: waiting for k, last seen with .* \(sh\)`, line)
	require.NoError(t, first.stdin.Close())
	assert.Zero(t, p.status())
}
