//go:build unix

package guard

import (
	"encoding/gob"
	"fmt"
	"os"
	"syscall"
)

// order is what the wrapper tells the guard: one of these.
type order struct {
	Start    *start // the first, and no other
	Deadline *Deadline
	Signal   int // for the command
}

// start says what to run.
type start struct {
	Command
	Deadline Deadline
	Group    int // the wrapper's process group, which may have the terminal
}

// report is what the guard tells the wrapper: one of these.
type report struct {
	Group   int    // the command's, which has started
	Trouble string // for the user
	Gone    bool   // nothing is left
	Result  Result // if so
}

// link is one end of the socket between the two. It speaks gob, since JSON
// would change arguments that are no UTF-8.
type link struct {
	file *os.File
	in   *gob.Decoder
	out  *gob.Encoder
}

func newLink(fd int) *link {
	file := os.NewFile(uintptr(fd), "guard's socket")
	return &link{file: file, in: gob.NewDecoder(file), out: gob.NewEncoder(file)}
}

// pair makes the socket. The second end, which stays open in programs that are
// executed, is given by its number.
func pair() (mine *link, other int, err error) {
	// Under the lock lest a process be started meanwhile that would keep the
	// first end.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("make a socket: %w", err)
	}
	syscall.CloseOnExec(ends[0])
	for _, fd := range ends {
		if err := syscall.SetNonblock(fd, true); err != nil {
			return nil, 0, fmt.Errorf("make a socket: %w", err)
		}
	}
	return newLink(ends[0]), ends[1], nil
}
