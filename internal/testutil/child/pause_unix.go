//go:build unix

package child

import "syscall"

// Pause stops the process by SIGSTOP, and returns once it stands still (on
// Linux; elsewhere soon after).
func (p *Process) Pause() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.awaitStopped()
}

// Resume lets a stopped process go on, by SIGCONT.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }
