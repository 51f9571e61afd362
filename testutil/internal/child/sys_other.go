//go:build unix && !linux

package child

import "syscall"

// dieWithParent has no equivalent here: a server outlives a test
// binary that dies before its cleanup.
func dieWithParent(*syscall.SysProcAttr) {}

// AwaitStopped has no portable equivalent that leaves the exit status
// to exec.Cmd.Wait; the signal takes effect soon.
func (*Process) AwaitStopped() error { return nil }
