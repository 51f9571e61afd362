package crew

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"github.com/lockbeat/lockbeat/nemesis/internal/history"
	"github.com/lockbeat/lockbeat/nemesis/internal/worker"
)

// process is one life of a worker.
type process struct {
	name       string
	cmd        *exec.Cmd
	stdin      io.Closer
	complaints bytes.Buffer  // to be read when done is closed
	failure    error         // the same
	done       chan struct{} // closed once it has ended and all it told is down

	mu      sync.Mutex // guards what follows
	history *history.Process
	stopped int64 // since when it is frozen; 0 if it is not
}

// spawn starts this program as a worker. The kernel ends it when this process ends, frozen or not.
func spawn(name, spec string) (*process, error) {
	program, err := os.Executable() // or the test binary
	if err != nil {
		return nil, err
	}
	p := &process{
		name: name, cmd: exec.Command(program), done: make(chan struct{}),
		history: history.NewProcess(name),
	}
	p.cmd.Env = append(os.Environ(), worker.Env+"="+spec)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = &p.complaints
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		// The signal at the parent's death comes when the thread that
		// started the child ends: this one stays.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.listen(out)
		p.failure = p.cmd.Wait()
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("crew: %s: %w", name, err)
	}
	return p, nil
}

// listen takes down what the process tells, until it ends.
func (p *process) listen(out io.Reader) {
	lines := bufio.NewReaderSize(out, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			// a line that kill -9 has cut was never written whole,
			// and nothing was done that it tells of
			return
		}
		var e history.Event
		if json.Unmarshal(line, &e) != nil {
			continue // something else that writes to stdout, such as a panic's last words
		}
		p.mu.Lock()
		p.history.Take(e)
		p.mu.Unlock()
	}
}

func (p *process) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := history.Now()
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("crew: send %v to %s: %w", sig, p.name, err)
	}
	switch {
	case sig == syscall.SIGSTOP && p.stopped == 0:
		p.stopped = now
	case sig == syscall.SIGCONT && p.stopped != 0:
		p.history.Take(history.Event{Kind: history.Paused, At: p.stopped, Until: history.Now()})
		p.stopped = 0
	}
	return nil
}

// kill ends the process by SIGKILL, and returns when it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended already
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	now := history.Now()
	if p.stopped != 0 {
		p.history.Take(history.Event{Kind: history.Paused, At: p.stopped, Until: now})
	}
	p.history.Take(history.Event{Kind: history.Killed, At: now})
}

// leave tells the process to end.
func (p *process) leave() error { return p.stdin.Close() }

// told is what it has told, once it has ended.
func (p *process) told() *history.Process {
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.history
}
