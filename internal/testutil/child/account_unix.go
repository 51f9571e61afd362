//go:build unix

package child

import (
	"os/exec"
	"syscall"
)

// Run has cmd run as the user.
func (a *Account) Run(cmd *exec.Cmd) {
	if a != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)},
		}
	}
}
