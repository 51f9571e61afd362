//go:build unix

package guard

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the foreground of the terminal. The command has it if the wrapper had it, so that
// it can read what is typed and Ctrl-C reaches it; afterwards the wrapper's group has it again.
//
// In a pipeline the command does not get it: the other programs of the pipeline, such as a pager,
// are in the wrapper's group, and would lose it.
type terminal struct {
	group int // the wrapper's; 0: there is no foreground to hand on
	owner int // the command's group
}

// findTerminal looks whether the standard input is a terminal that the wrapper's group has.
func findTerminal(group int) *terminal {
	in, err1 := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	_, err2 := unix.IoctlGetInt(1, unix.TIOCGPGRP)
	if err1 != nil || err2 != nil {
		return &terminal{}
	}
	t := &terminal{group: group}
	if in != group {
		t.owner = -1 // in the background, from where a shell may bring it
	}
	return t
}

// handTo lets the command, when it is started, take the foreground.
func (t *terminal) handTo(attr *syscall.SysProcAttr) {
	if t.group != 0 && t.owner == 0 {
		attr.Foreground, attr.Ctty = true, 0
	}
}

// handed reports whether the command has the foreground.
func (t *terminal) handed() bool { return t != nil && t.has(t.owner) }

func (t *terminal) has(group int) bool {
	now, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	return t.group != 0 && err == nil && now == group
}

// handOn gives the command the foreground that the wrapper has been given.
func (t *terminal) handOn() {
	if t.owner > 0 && t.has(t.group) {
		_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, t.owner)
	}
}

// giveBack gives the wrapper the foreground that the command had. SIGTTOU must be ignored.
func (t *terminal) giveBack() {
	if t != nil && t.owner > 0 && t.has(t.owner) {
		_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, t.group)
	}
}
