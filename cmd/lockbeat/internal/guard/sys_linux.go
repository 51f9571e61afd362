package guard

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// self is the program that runs, also if another has taken its place on the
// disk.
func self() (string, error) { return "/proc/self/exe", nil }

// rename gives the guard its name, in place of its file's.
func rename() {
	_ = os.WriteFile("/proc/self/comm", []byte(guardName), 0) // no harm if it keeps its name
}

// dieWithParent has the kernel kill the command when the guard dies. The
// wrapper does that too, unless it was killed at the same time.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// awaitStop returns when a child has stopped or ended. It leaves it to be
// waited for.
func awaitStop(p *os.Process) {
	for {
		err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
