//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// process is another life of this program. It ends when its stdin is closed, or when this one dies.
type process struct {
	cmd        *exec.Cmd
	stdin      io.Closer
	stdout     *bufio.Reader
	complaints bytes.Buffer
	ended      chan struct{}
}

func spawn(role string, args ...string) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), roleEnv+"="+role)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = &p.complaints
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdout = bufio.NewReader(out)
	started := make(chan error, 1)
	go func() {
		defer close(p.ended)
		// The signal at the parent's death comes when the thread that started the child ends: this
		// one stays.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_, _ = p.cmd.Process.Wait()
		}
	}()
	return p, <-started
}

func (p *process) end() {
	_ = p.stdin.Close()
	<-p.ended
}

// spawnServer starts the server, and returns where it listens.
func spawnServer(redis string) (*process, string, error) {
	p, err := spawn("server", redis)
	if err != nil {
		return nil, "", err
	}
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		p.end()
		return nil, "", fmt.Errorf("the server did not start: %w: %s", err, p.complaints.String())
	}
	return p, strings.TrimSpace(line), nil
}
