//go:build linux

package run_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// Each signal reaches the command, and its children in its process group.
func TestSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const script = `
		for s in HUP INT QUIT USR1 USR2 WINCH ALRM; do trap "echo $s" $s; done
		trap 'echo TERM; exit 7' TERM
		sh -c 'trap "echo child; exit" USR1; echo up; while :; do sleep 0.01; done' &
		while :; do sleep 0.01; done`
	p := start(t, server.Addr(), "--name=k", "--", "sh", "-c", script)
	p.expect("up")
	p.signal(syscall.SIGUSR1) // which the child has a trap for, too
	lines := []string{<-p.lines, <-p.lines}
	assert.ElementsMatch(t, []string{"child", "USR1"}, lines)
	for name, s := range map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT,
		"USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH, "ALRM": syscall.SIGALRM,
	} {
		p.signal(s)
		p.expect(name)
	}
	p.signal(syscall.SIGTERM)
	p.expect("TERM")
	assert.Equal(t, 7, p.status())
	assert.Empty(t, p.alive())
	awaitFree(t, server, "k")
}

// A command that does not mind ends by the signal, and so do we.
func TestSignalEnds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1} {
		p := start(t, server.Addr(), "--name=k", "--", "sh", "-c", "echo up; exec sleep 1000")
		p.expect("up")
		p.signal(s)
		assert.Equal(t, 128+int(s), p.status())
		awaitFree(t, server, "k")
	}
}

// A command that is stopped hears of its end all the same.
func TestSignalEndsWhatIsStopped(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := start(t, server.Addr(), "--name=k", "--", "sh", "-c", "echo up; kill -STOP $$")
	p.expect("up")
	p.signal(syscall.SIGTERM)
	assert.Equal(t, 128+int(syscall.SIGTERM), p.status())
	awaitFree(t, server, "k")
}

// A signal to all processes of a unit, as systemd sends it, also meets the
// guard. The command has its time, and is not disturbed by the same signal once
// more. One that has not got it hears later.
func TestUnitIsStopped(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, grace := range map[string]string{"all": "7s", "two": "100ms"} {
		p := start(t, server.Addr(), "--name=k", "--grace="+grace, "--", "sh", "-c", `
			trap "trap '' TERM; echo asked; sleep 0.3; echo cleaned; exit 5" TERM # it may be asked twice
			echo up; while :; do sleep 0.01; done`)
		p.expect("up")
		guard, command := p.guard(), p.find("sh")
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", guard.Pid))
		assert.NoError(t, err)
		assert.NotContains(t, string(line), "lockbeat", "a kill by that name would meet both")
		assert.NoError(t, guard.Signal(syscall.SIGTERM))
		p.signal(syscall.SIGTERM)
		if name == "all" {
			assert.NoError(t, command.Signal(syscall.SIGTERM))
		}
		p.expect("asked")
		p.expect("cleaned")
		assert.Equal(t, 5, p.status())
		assert.NoError(t, guard.Release())
		assert.NoError(t, command.Release())
	}
	awaitFree(t, server, "k")
}

// When an outer guard asks all below it to end, a command under an inner lock
// has its time. Both guards ask it.
func TestNested(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	self, err := os.Executable()
	require.NoError(t, err)
	p := start(t, server.Addr(), "--name=outer", "--ttl=40s", "--grace=10s", "--",
		"sh", "-c", `"$@" & read x; exit 9`, "sh", self, "run", "--name=inner", "--",
		"sh", "-c", `trap 'trap "" TERM; echo asked; sleep 0.3; echo cleaned; exit 5' TERM
		echo up; while :; do sleep 0.01; done`)
	p.expect("up")
	require.NoError(t, p.stdin.Close())
	p.expect("asked")
	p.expect("cleaned")
	assert.Equal(t, 9, p.status())
	awaitFree(t, server, "inner")
}

// A signal ends the wait for the lock. Nothing is held then, and nothing stays
// in line.
func TestSignalEndsTheWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := start(t, server.Addr(), "--name=k", "--", "sh", "-c", "echo up; read x")
	holder.expect("up")
	for _, s := range []syscall.Signal{
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
	} {
		p := start(t, server.Addr(), "--name=k", "--", "echo", "ran")
		awaitLine(t, server, "k")
		p.signal(syscall.SIGWINCH) // is no reason to end
		p.signal(s)
		assert.Equal(t, 128+int(s), p.status())
		assert.Empty(t, p.stderr.String())
		for line := range p.lines {
			assert.Fail(t, "it ran", line)
		}
		gone, err := server.Do("EXISTS", key("k")+":waiters").AsInt64()
		assert.NoError(t, err)
		assert.Zero(t, gone)
	}
	_, err := fmt.Fprintln(holder.stdin, "go")
	assert.NoError(t, err)
	assert.Zero(t, holder.status())
	awaitFree(t, server, "k")
}

// Also before there is a connection.
func TestSignalEndsTheWaitForRedis(t *testing.T) {
	t.Parallel()
	p := start(t, "127.0.0.1:1", "--name=k", "--", "echo", "ran")
	require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), "trying") },
		patience, 5*time.Millisecond)
	p.signal(syscall.SIGTERM)
	assert.Equal(t, 128+int(syscall.SIGTERM), p.status())
}

// A signal that was ignored, as by nohup, stays so.
func TestNohup(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := prepare(t, server.Addr(), "--name=k", "--", "sh", "-c",
		"kill -HUP $$; kill -HUP $PPID; echo still here")
	p.cmd.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh"}, p.cmd.Args...)
	p.cmd.Path = "/bin/sh"
	var out bytes.Buffer
	p.cmd.Stdout = &out
	p.begin()
	assert.Zero(t, p.status())
	assert.Equal(t, "still here\n", out.String())
}
