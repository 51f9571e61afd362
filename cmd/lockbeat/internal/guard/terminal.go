//go:build unix

package guard

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/tree"
)

// terminal is the terminal that controls the session, if there is one: else
// nil, and the command leads a process group of its own.
//
// If it is the standard input and output, and the wrapper's group has its
// foreground, the command leads a group too, which gets that foreground: it
// reads what is typed, and Ctrl-C is for it alone. Afterwards the wrapper's
// group has the foreground again.
//
// Else other programs may need the terminal, such as a pager behind the
// command, and a shell may bring all of them to the foreground, or stop them.
// The command stays in the wrapper's group, and may ask at the terminal as if
// it ran by itself. (Not where that group is all that is known of the processes
// of a command: there it leads one of its own, and is stopped if it asks.)
type terminal struct {
	file  int  // that it is open as
	group int  // the wrapper's
	hand  bool // the foreground to the command, when it starts
	owner int  // the group that the command leads; 0: it is in the wrapper's
}

// findTerminal looks for it.
func findTerminal(group int) *terminal {
	file, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	t := &terminal{file: file, group: group}
	_, err1 := unix.IoctlGetInt(0, unix.TIOCGPGRP) // fails unless it is this terminal
	_, err2 := unix.IoctlGetInt(1, unix.TIOCGPGRP)
	t.hand = err1 == nil && err2 == nil && t.has(group)
	return t
}

// place puts the command, when it is started, into its group.
func (t *terminal) place(attr *syscall.SysProcAttr) {
	switch {
	case t == nil:
	case t.hand:
		attr.Foreground, attr.Ctty = true, t.file
	case tree.Whole:
		attr.Pgid = t.group
	}
}

// lead reports whether the command, which was so placed, leads its group.
func (t *terminal) lead(pid int) bool {
	if t != nil && !t.hand && tree.Whole {
		return false
	}
	if t != nil {
		t.owner = pid
	}
	return true
}

// sends reports whether a signal that the wrapper got has come from the
// keyboard, from where it goes to the command, too.
func (t *terminal) sends(sig syscall.Signal) bool {
	return t != nil && t.owner == 0 && t.has(t.group) &&
		(sig == syscall.SIGINT || sig == syscall.SIGQUIT || sig == syscall.SIGWINCH)
}

// handed reports whether the group that the command leads has the foreground.
func (t *terminal) handed() bool { return t != nil && t.owner > 0 && t.has(t.owner) }

func (t *terminal) has(group int) bool {
	now, err := unix.IoctlGetInt(t.file, unix.TIOCGPGRP)
	return err == nil && now == group
}

// handOn gives the command the foreground that the wrapper has been given.
func (t *terminal) handOn() {
	if t != nil && t.owner > 0 && t.has(t.group) {
		_ = unix.IoctlSetPointerInt(t.file, unix.TIOCSPGRP, t.owner)
	}
}

// giveBack gives the wrapper the foreground that the command had. SIGTTOU must
// be ignored.
func (t *terminal) giveBack() {
	if t.handed() {
		_ = unix.IoctlSetPointerInt(t.file, unix.TIOCSPGRP, t.group)
	}
}
