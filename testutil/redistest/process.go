//go:build unix

package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is one run of redis-server.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended and been reaped
}

// spawn starts bin with its output appended to the file logPath.
func spawn(bin, logPath string, args []string) (*process, error) {
	p := &process{cmd: exec.Command(bin, args...), done: make(chan struct{})}
	p.cmd.SysProcAttr = dieWithParent()
	started := make(chan error, 1)
	go func() {
		// The kernel sends the parent-death signal when the *thread* that started the
		// child ends, so this goroutine keeps its thread for as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			started <- fmt.Errorf("redistest: open the server's log: %w", err)
			return
		}
		defer func() { _ = log.Close() }() // the child has its own descriptor
		p.cmd.Stdout, p.cmd.Stderr = log, log
		if err := p.cmd.Start(); err != nil {
			started <- fmt.Errorf("redistest: start %s: %w", bin, err)
			return
		}
		started <- nil
		_ = p.cmd.Wait() // how it ended is in its log
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, err
	}
	return p, nil
}

// signal sends sig to exactly this process; it is an error if that has ended.
func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("redistest: send %v to redis-server: %w", sig, err)
	}
	return nil
}

// kill ends the process, stopped or not, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended already
	<-p.done
}
