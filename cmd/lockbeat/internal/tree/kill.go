//go:build unix

package tree

import (
	"syscall"
	"time"
)

// Kill kills until gone is closed: a process may start others while it is looked for. It tells
// once if one can't be killed, which may belong to another user, and goes on.
func (t *Tree) Kill(gone <-chan struct{}, tell func(error)) {
	const first, last = time.Millisecond, 100 * time.Millisecond
	had := make(map[process]bool)
	for pause := first; ; pause = min(2*pause, last) {
		fresh, err := t.signal(syscall.SIGKILL, had)
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
