package tree

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Whole reports whether every process below this one can be found, rather than
// a process group.
const Whole = true

// Tree is all processes below this one but the children that it had before. Its
// methods may be called concurrently.
type Tree struct {
	spared map[int]uint64 // by number, their start times

	mu     sync.Mutex // held while a child is reaped, so that a number in use stays what it is
	pid    int        // of the command, until that has been reaped; else 0
	leader bool       // it leads a process group of its own
}

// Adopt makes this process the one that orphans below it come to.
func Adopt() (*Tree, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("adopt orphans: %w", err)
	}
	children, err := below(nil, nil)
	if err != nil {
		return nil, err
	}
	t := &Tree{spared: make(map[int]uint64)}
	for _, p := range children {
		if p.parent == os.Getpid() {
			t.spared[p.pid] = p.start
		}
	}
	return t, nil
}

// Command says which child is the command, and whether it leads a process group
// of its own.
func (t *Tree) Command(pid int, leader bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pid, t.leader = pid, leader
}

// Forward sends a signal to the command's own process group, else to the
// command alone, unless it has ended.
func (t *Tree) Forward(sig syscall.Signal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.pid > 0 && t.leader:
		_ = syscall.Kill(-t.pid, sig) // fails only if the group has ended
	case t.pid > 0:
		_ = syscall.Kill(t.pid, sig)
	}
}

// Wake lets the command's process group go on if processes of it are stopped
// and the command itself is not, of which [Tree.Watch] does not tell: a shell
// that starts a program stops only after that. One that was stopped on purpose,
// by kill -STOP, can't be told from those, and goes on too.
func (t *Tree) Wake() {
	t.mu.Lock()
	group := t.pid
	t.mu.Unlock()
	pids, _ := numbers()
	for _, pid := range pids {
		if p, _ := read(pid); p.stopped && p.group == group && p.pid != group {
			if leader, ok := read(group); ok && !leader.stopped {
				t.Forward(syscall.SIGCONT)
			}
			return
		}
	}
}

// Look reports how long it takes to look at each process, as [Tree.Kill] does
// again and again.
func (t *Tree) Look() time.Duration {
	begun := time.Now()
	_, _ = t.signal(make(map[process]bool))
	return time.Since(begun)
}

// signal sends signals to each process, also to those that have had them. It
// reports whether there was one that had not. The error is about the first
// process that could not be sent them.
func (t *Tree) signal(had map[process]bool, signals ...syscall.Signal) (fresh bool, err error) {
	sent := make(map[process]bool)
	one := func(p process) {
		if key := (process{pid: p.pid, start: p.start}); !p.dead && !sent[key] {
			sent[key] = true
			fresh = fresh || !had[key]
			had[key] = true
			if e := p.signal(signals); e != nil && err == nil {
				err = fmt.Errorf("process %d can't be ended: %w", p.pid, e)
			}
		}
	}
	tell := one
	if !slices.Contains(signals, syscall.SIGKILL) {
		tell = nil // those that are asked to end are asked together
	}
	all, failed := below(t.spared, tell)
	for _, p := range all {
		one(p)
	}
	if failed != nil {
		err = failed
	}
	return fresh, err
}

// signal sends signals to a process if it is still there.
func (p process) signal(signals []syscall.Signal) error {
	handle, err := os.FindProcess(p.pid)
	if err != nil {
		return err
	}
	defer func() { _ = handle.Release() }()
	// From here on the handle is that of one process. Is it the one that was
	// seen?
	if now, ok := read(p.pid); !ok || now.start != p.start {
		return nil
	}
	for _, sig := range signals {
		if err := handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	return nil
}

// Watch reaps the children that end, and tells of each; it is told of those
// that stop, too. It returns when no process is left.
func (t *Tree) Watch(tell func(pid int, status syscall.WaitStatus)) {
	for t.left() {
		for { // until a child has ended or stopped, which is left as it is
			err := unix.Waitid(unix.P_ALL, 0, nil,
				unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		t.reap(tell)
	}
}

// reap takes note of one child that has ended or stopped, if there is one.
func (t *Tree) reap(tell func(pid int, status syscall.WaitStatus)) {
	t.mu.Lock()
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
	if err == nil && pid > 0 && !status.Stopped() && pid == t.pid {
		t.pid = 0
	}
	t.mu.Unlock()
	if err == nil && pid > 0 {
		tell(pid, status)
	}
}

// left reports whether a process is below this one.
func (t *Tree) left() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if errors.Is(err, unix.ECHILD) {
		return false
	}
	if len(t.spared) == 0 {
		return true
	}
	// A process that starts another and ends may hide it from one look, not
	// from two.
	for range 2 {
		if all, err := below(t.spared, nil); err != nil || len(all) > 0 {
			return true
		}
	}
	return false
}

// hurry has the rest of this goroutine go before all that is not urgent, if
// this user may (root may): on a busy machine it would wait its turn again and
// again while the command goes on.
func hurry() {
	runtime.LockOSThread() // until the goroutine ends, and the thread with it
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1,
		Flags: unix.SCHED_FLAG_RESET_ON_FORK,
	}, 0)
}
