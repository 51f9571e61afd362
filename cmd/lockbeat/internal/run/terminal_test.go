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

// openTerminal makes a terminal: what is written into the one is typed at the other.
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

// At a terminal the command has the foreground: it reads what is typed, Ctrl-C is for it, and
// Ctrl-Z does not leave it stopped with a lock in its hands. Afterwards the shell has it again.
func TestTerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	keyboard, screen := openTerminal(t)
	over := filepath.Join(t.TempDir(), "over")
	p := prepare(t, server.Addr(), "--name=k", "--", "sh", "-c", `trap "echo interrupted" INT
		read x; echo "it has $x"; while [ ! -e `+over+` ]; do sleep 0.01; done`)
	p.cmd.Args = append([]string{"sh", "-c", `"$@"; read y; echo "shell has $y, $?"`, "sh"},
		append([]string{p.cmd.Path}, p.cmd.Args[1:]...)...)
	p.cmd.Path = "/bin/sh"
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = screen, screen, screen
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	var seen output
	go func() { _, _ = io.Copy(&seen, keyboard) }() // ends with the terminal
	p.begin()
	expect := func(what string) {
		t.Helper()
		assert.Eventually(t, func() bool { return strings.Contains(seen.String(), what) },
			patience, 5*time.Millisecond, what)
	}
	enter := func(text string) {
		t.Helper()
		_, err := keyboard.WriteString(text)
		require.NoError(t, err)
	}

	enter("this\n")
	expect("it has this")
	enter("\x1a")
	enter("\x03")
	expect("interrupted")
	require.NoError(t, os.WriteFile(over, nil, 0o600))
	require.Eventually(t, func() bool { return len(p.alive()) == 1 }, patience,
		5*time.Millisecond, "the shell alone")
	enter("that\n")
	expect("shell has that, 0")
	assert.Zero(t, p.status())
	assert.Equal(t, 1, strings.Count(seen.String(), "interrupted"))
}
