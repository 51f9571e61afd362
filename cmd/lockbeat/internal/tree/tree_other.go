//go:build unix && !linux

package tree

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// Whole reports whether every process below this one can be found, rather than
// a process group.
const Whole = false

// Tree is the command's process group. Its methods may be called concurrently.
type Tree struct {
	mu    sync.Mutex
	group int // 0: not started yet
}

// Adopt returns a tree without a process.
func Adopt() (*Tree, error) { return new(Tree), nil }

// Command says which process is the command, which must lead a process group.
func (t *Tree) Command(pid int, _ bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.group = pid
}

// Forward sends a signal to the command's process group.
func (t *Tree) Forward(sig syscall.Signal) { _, _ = t.signal(nil, sig) }

// Wake does nothing: which processes are stopped is not known here.
func (t *Tree) Wake() {}

// Look does nothing: there is nothing to look for.
func (t *Tree) Look() time.Duration { return 0 }

// signal sends signals to the process group. The error says that they could not
// be sent.
func (t *Tree) signal(_ map[process]bool, signals ...syscall.Signal) (fresh bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.group == 0 {
		return false, nil
	}
	for _, sig := range signals {
		err := syscall.Kill(-t.group, sig)
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			return false, fmt.Errorf("process group %d can't be ended: %w", t.group, err)
		}
	}
	return false, nil
}

func hurry() {}

// process is of no use here.
type process struct{}

// Watch reaps the command if it is a child, and tells of it; it is told when it
// stops, too. It returns when no process is left in the group.
func (t *Tree) Watch(tell func(pid int, status syscall.WaitStatus)) {
	t.mu.Lock()
	group := t.group
	t.mu.Unlock()
	for child := group > 0; child; {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(group, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			child = false
		default:
			child = status.Stopped()
			tell(pid, status)
		}
	}
	for group > 0 && !errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) {
		<-time.After(10 * time.Millisecond)
	}
}
