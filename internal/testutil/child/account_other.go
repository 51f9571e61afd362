//go:build !unix

package child

import "os/exec"

// Run does nothing here, where nobody is root.
func (*Account) Run(*exec.Cmd) {}
