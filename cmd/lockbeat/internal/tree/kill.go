//go:build unix

package tree

import (
	"syscall"
	"time"
)

// Ask asks each process to end, by SIGTERM. One that is stopped is let go on,
// or it would not hear. Those that it misses are killed later.
func (t *Tree) Ask() {
	_, _ = t.signal(make(map[process]bool), syscall.SIGTERM, syscall.SIGCONT)
}

// Kill kills until gone is closed: a process may start others while it is
// looked for. It tells once if one can't be killed, which may belong to another
// user, and goes on.
func (t *Tree) Kill(gone <-chan struct{}, tell func(error)) {
	hurry()
	const first, last = time.Millisecond, 100 * time.Millisecond
	t.Forward(syscall.SIGKILL) // most are in the group, and need not be looked for
	had := make(map[process]bool)
	for pause := first; ; pause = min(2*pause, last) {
		fresh, err := t.signal(had, syscall.SIGKILL)
		if fresh {
			pause = first
		}
		if err != nil && tell != nil {
			tell(err)
			tell = nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-gone:
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
