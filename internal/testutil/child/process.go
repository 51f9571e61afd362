// Package child runs servers as child processes for tests: one dies with the
// process that has started it, in whichever way that ends (on Linux).
package child

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// Process is one run of a server.
type Process struct {
	cmd  *exec.Cmd
	log  string        // the file
	done chan struct{} // closed once it has ended and been reaped
}

// Start starts cmd with its output appended to the file logPath.
func Start(cmd *exec.Cmd, logPath string) (*Process, error) {
	p := &Process{cmd: cmd, log: logPath, done: make(chan struct{})}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	dieWithParent(cmd.SysProcAttr)
	started := make(chan error, 1)
	go func() {
		// The kernel sends the parent-death signal when the *thread* that
		// started the child ends, so this goroutine keeps its thread for as
		// long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			started <- fmt.Errorf("open the server's log: %w", err)
			return
		}
		defer func() { _ = log.Close() }() // the child has its own descriptor
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			started <- fmt.Errorf("start %s: %w", cmd.Path, err)
			return
		}
		started <- nil
		_ = cmd.Wait() // how it ended is in its log
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, err
	}
	return p, nil
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed once the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends sig to exactly this process; it is an error if that has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("send %v to %s: %w", sig, filepath.Base(p.cmd.Path), err)
	}
	return nil
}

// Kill ends the process, stopped or not, and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended already
	<-p.done
}
