//go:build !linux

package child

import "syscall"

// dieWithParent has no equivalent here: a server outlives a test
// binary that dies before its cleanup.
func dieWithParent(*syscall.SysProcAttr) {}
