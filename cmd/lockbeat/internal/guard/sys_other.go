//go:build unix && !linux

package guard

import (
	"os"
	"syscall"
)

// self is the program that runs.
func self() (string, error) { return os.Executable() }

func rename() {}

// dieWithParent has no equivalent here.
func dieWithParent(*syscall.SysProcAttr) {}

// awaitStop returns when a child has ended: that it has stopped can't be seen
// here. Then the wrapper finds the guard late, when it has something to do.
func awaitStop(p *os.Process) { _, _ = p.Wait() }
