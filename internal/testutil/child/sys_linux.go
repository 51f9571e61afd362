package child

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the kernel kill the child when the thread that started it
// ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// awaitStopped returns once the process has stopped: a signal is only queued
// when kill(2) returns, and a reply may slip out in between. WNOWAIT leaves its
// state to exec.Cmd.Wait.
func (p *Process) awaitStopped() error {
	for {
		err := unix.Waitid(unix.P_PID, p.PID(), nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait until %s has stopped: %w", p.cmd.Path, err)
		}
		return nil
	}
}
