//go:build linux

package run_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// patience bounds every wait for an event, on a machine that is busy.
const patience = 30 * time.Second

// program is `lockbeat run` in a process of its own.
type program struct {
	tb     testing.TB
	cmd    *exec.Cmd
	mark   string // digits in the environment or the arguments of each process below it
	stdin  io.WriteCloser
	lines  chan string
	stderr output
	ended  chan struct{}
}

var marks atomic.Int64

// start starts it on the server at an address. Its output comes by line.
func start(tb testing.TB, address string, args ...string) *program {
	tb.Helper()
	p := prepare(tb, address, args...)
	// No StdoutPipe, which Wait closes although lines are left in it.
	stdout, end, err := os.Pipe()
	require.NoError(tb, err)
	p.cmd.Stdout = end
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(tb, err)
	p.begin()
	require.NoError(tb, end.Close())
	p.lines = make(chan string, 10_000)
	go func() {
		defer close(p.lines)
		defer func() { _ = stdout.Close() }()
		for s := bufio.NewScanner(stdout); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	return p
}

func prepare(tb testing.TB, address string, args ...string) *program {
	tb.Helper()
	self, err := os.Executable()
	require.NoError(tb, err)
	p := &program{tb: tb, ended: make(chan struct{})}
	p.mark = fmt.Sprintf("7%07d7%07d7", os.Getpid(), marks.Add(1))
	p.cmd = exec.Command(self, append([]string{"run"}, args...)...)
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "MARK="+p.mark, "LOCKBEAT_URL=redis://"+address)
	p.cmd.Stderr = &p.stderr
	// Without the terminal from which these tests are run.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// Processes may have inherited the pipe of the standard error: it is not
	// waited for longer.
	p.cmd.WaitDelay = patience
	return p
}

func (p *program) begin() {
	p.tb.Helper()
	require.NoError(p.tb, p.cmd.Start())
	p.tb.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		for deadline := time.Now().Add(patience); ; {
			left := p.alive()
			for _, pid := range left { // ours: they have our mark
				if handle, err := os.FindProcess(pid); err == nil {
					_ = handle.Kill()
				}
			}
			if len(left) == 0 || time.Now().After(deadline) {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
		<-p.ended
	})
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // how it ended is in ProcessState
	}()
}

// expect waits for a line of the command's output.
func (p *program) expect(want string) {
	p.tb.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			<-p.ended
		}
		require.True(p.tb, ok, "it has ended without %q: %s", want, &p.stderr)
		require.Equal(p.tb, want, line)
	case <-time.After(patience):
		require.Fail(p.tb, "no output", "want %q", want)
	}
}

// status waits for the end and returns the exit status.
func (p *program) status() int {
	p.tb.Helper()
	p.wait()
	return p.cmd.ProcessState.ExitCode()
}

// wait waits for the end of the program.
func (p *program) wait() {
	p.tb.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		require.Fail(p.tb, "it does not end")
	}
}

func (p *program) signal(sig syscall.Signal) {
	p.tb.Helper()
	require.NoError(p.tb, p.cmd.Process.Signal(sig))
}

// guard returns the guard's process. It does not signal a number, which may be
// another's by then.
func (p *program) guard() *os.Process { return p.find("lockguard") }

// find returns the process that has a name.
func (p *program) find(want string) *os.Process {
	p.tb.Helper()
	for _, pid := range p.alive() {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if strings.TrimSpace(string(name)) == want {
			handle, err := os.FindProcess(pid)
			require.NoError(p.tb, err)
			return handle
		}
	}
	require.Fail(p.tb, "there is no process", want)
	return nil
}

// alive are the processes with the program's mark that run, the program and its
// guard included.
func (p *program) alive() (pids []int) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(p.tb, err)
	for _, folder := range folders {
		environ, _ := os.ReadFile(folder + "/environ")
		arguments, _ := os.ReadFile(folder + "/cmdline")
		if !bytes.Contains(environ, []byte(p.mark)) && !bytes.Contains(arguments, []byte(p.mark)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(folder)); err == nil && runs(folder) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// runs reports whether a process may do something yet. One that is dead does
// not, of which only its parent has not heard; nor one that SIGKILL was sent
// to, which on a busy machine ends later.
func runs(folder string) bool {
	status, _ := os.ReadFile(folder + "/status")
	for line := range strings.Lines(string(status)) {
		switch name, value, _ := strings.Cut(line, ":\t"); name {
		case "State":
			if value[0] == 'Z' || value[0] == 'X' {
				return false
			}
		case "SigPnd", "ShdPnd":
			pending, _ := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			if pending&(1<<(syscall.SIGKILL-1)) != 0 {
				return false
			}
		}
	}
	return len(status) > 0
}

// command are the processes of the command that run.
func (p *program) command() (pids []int) {
	for _, pid := range p.alive() {
		name, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if self, _ := os.Executable(); name != "" && name != self {
			pids = append(pids, pid)
		}
	}
	return pids
}

// key is the key of the lock of a name.
func key(name string) string { return "lockbeat:{" + name + "}" }

// left is how long a key of the server still lives; ok is false if it is gone.
func left(tb testing.TB, server *redistest.Server, key string) (d time.Duration, ok bool) {
	tb.Helper()
	ms, err := server.Do("PTTL", key).AsInt64()
	require.NoError(tb, err)
	return time.Duration(ms) * time.Millisecond, ms >= 0
}

// awaitFree waits until a lock is free at the server.
func awaitFree(tb testing.TB, server *redistest.Server, name string) {
	tb.Helper()
	for deadline := time.Now().Add(patience); ; {
		d, held := left(tb, server, key(name))
		if !held {
			return
		}
		require.True(tb, time.Now().Before(deadline), "%s is held for %v more", name, d)
		<-time.After(2 * time.Millisecond)
	}
}

// awaitLine waits until a program stands in line for a lock.
func awaitLine(tb testing.TB, server *redistest.Server, name string) {
	tb.Helper()
	require.Eventually(tb, func() bool {
		n, err := server.Do("EXISTS", key(name)+":waiters").AsInt64()
		return err == nil && n == 1
	}, patience, 5*time.Millisecond)
}

// output is what has been written so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// outcome runs it to its end and returns what it has written and its status.
func outcome(tb testing.TB, address string, args ...string) (stdout, stderr string, status int) {
	tb.Helper()
	p := prepare(tb, address, args...)
	out, err := p.cmd.StdoutPipe()
	require.NoError(tb, err)
	p.begin()
	all, _ := io.ReadAll(out) // ends with its last process
	status = p.status()
	return string(all), p.stderr.String(), status
}
