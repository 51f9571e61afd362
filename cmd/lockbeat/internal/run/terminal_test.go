//go:build linux

package run_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// openTerminal makes a terminal: what is written into the one is typed at the
// other.
func openTerminal(t *testing.T) (keyboard, screen *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = keyboard.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	screen, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = screen.Close() })
	return keyboard, screen
}

// session is `lockbeat run` that a shell has started at a terminal.
type session struct {
	*program

	keyboard *os.File
	seen     output
}

// startSession has a shell run a line, in which "$@" is the program with its
// arguments.
func startSession(t *testing.T, line string, args ...string) *session {
	t.Helper()
	keyboard, screen := openTerminal(t)
	s := &session{program: prepare(t, redistest.Start(t).Addr(), args...), keyboard: keyboard}
	s.cmd.Args = append([]string{"sh", "-c", `trap : INT
		` + line + `; read y; echo "shell has $y, $?"`, "sh"},
		append([]string{s.cmd.Path}, s.cmd.Args[1:]...)...)
	s.cmd.Path = "/bin/sh"
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = screen, screen, screen
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	go func() { _, _ = io.Copy(&s.seen, keyboard) }() // ends with the terminal
	s.begin()
	return s
}

func (s *session) expect(what string) {
	s.tb.Helper()
	require.Eventually(s.tb, func() bool { return strings.Contains(s.seen.String(), what) },
		patience, 5*time.Millisecond, what)
}

func (s *session) enter(text string) {
	s.tb.Helper()
	_, err := s.keyboard.WriteString(text)
	require.NoError(s.tb, err)
}

// At a terminal the command has the foreground: it reads what is typed, Ctrl-C
// is for it, and Ctrl-Z does not leave it stopped with a lock in its hands.
// Afterwards the shell has it again.
func TestTerminal(t *testing.T) {
	t.Parallel()
	over := filepath.Join(t.TempDir(), "over")
	// Its loop starts no program: see TestTerminalWakesAChild.
	s := startSession(t, `"$@"`, "--name=k", "--", "sh", "-c", `trap "echo interrupted" INT
		read x; echo "it has $x"; while [ ! -e `+over+` ]; do :; done`)
	s.enter("this\n")
	s.expect("it has this")
	s.enter("\x1a")
	s.enter("\x03")
	s.expect("interrupted")
	require.NoError(t, os.WriteFile(over, nil, 0o600))
	require.Eventually(t, func() bool { return len(s.alive()) == 1 }, patience,
		5*time.Millisecond, "the shell alone")
	s.enter("that\n")
	s.expect("shell has that, 0")
	assert.Zero(t, s.status())
	assert.Equal(t, 1, strings.Count(s.seen.String(), "interrupted"))
}

// In a pipeline the command has the terminal together with the others: it reads
// what is typed, and Ctrl-C reaches it once.
func TestTerminalPipeline(t *testing.T) {
	t.Parallel()
	s := startSession(t, `"$@" | (trap "" INT; exec cat)`, "--name=k", "--", "sh", "-c", `
		trap "echo interrupted" INT; trap "echo over; exit" USR1
		read x; echo "it has $x"; while :; do sleep 0.01; done`)
	s.enter("this\n")
	s.expect("it has this")
	s.enter("\x03")
	s.expect("interrupted")
	// What the wrapper passes on comes in its order.
	self, err := os.Executable()
	require.NoError(t, err)
	wrapper := s.find(filepath.Base(self))
	defer func() { _ = wrapper.Release() }()
	require.NoError(t, wrapper.Signal(syscall.SIGUSR1))
	s.expect("over")
	s.enter("that\n")
	s.expect("shell has that, 0")
	assert.Equal(t, 1, strings.Count(s.seen.String(), "interrupted"))
}

// A password is asked for at the terminal, whatever the standard input is.
func TestTerminalBesideInput(t *testing.T) {
	t.Parallel()
	s := startSession(t, `echo piped | "$@"`, "--name=k", "--", "sh", "-c",
		`read a; read b </dev/tty; echo "it has $a and $b"`)
	s.enter("typed\n")
	s.expect("it has piped and typed")
	s.enter("that\n")
	s.expect("shell has that, 0")
}

// A shell that Ctrl-Z meets while it starts a program is not stopped, and waits
// for the program, which is. The next heartbeat lets that go on.
func TestTerminalWakesAChild(t *testing.T) {
	t.Parallel()
	s := startSession(t, `"$@"`, "--name=k", "--ttl=4s", "--", "sh", "-c",
		`sh -c 'kill -TSTP $$; echo child goes on'; echo command goes on`)
	s.expect("child goes on")
	s.expect("command goes on")
	s.enter("that\n")
	s.expect("shell has that, 0")
	assert.Zero(t, s.status())
}
