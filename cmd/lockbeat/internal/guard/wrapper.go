//go:build unix

package guard

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/tree"
)

// Hidden is the name of the command by which the program becomes a guard. It
// has one argument, the number of the socket.
const Hidden = "run-guard"

// guardName is the guard's own, so that a kill by the program's name does not
// end both.
const guardName = "lockguard"

// Command is what to run.
type Command struct {
	// Path is the file to execute; Args has its name first.
	Path string
	Args []string
	// Env is set beside the environment of this process.
	Env []string
	// Grace is between SIGTERM and SIGKILL.
	Grace time.Duration
}

// Result is what became of a command.
type Result struct {
	// Status is the command's exit status, or 128 and the number of the signal
	// that ended it.
	Status int
	// Cut means that it was ended before it had ended by itself.
	Cut bool
	// Failed says why it was not started, by Errno; "" if it was.
	Failed string
	Errno  syscall.Errno
	// Died means that the guard died, was stopped, or was late. The status is
	// not known.
	Died bool
}

// Guard is a guard as the wrapper sees it. Its methods may be called
// concurrently.
type Guard struct {
	link    *link
	tree    *tree.Tree
	process *os.Process
	trouble func(text string)
	alarm   *alarm
	done    chan struct{}
	result  Result // once done is closed

	mu     sync.Mutex // of link.out and alarm
	closed bool       // both are
}

// Start starts a guard, which starts the command. trouble is told of what the
// user should know, in another goroutine.
func Start(c Command, d Deadline, trouble func(text string)) (*Guard, error) {
	t, err := tree.Adopt()
	if err != nil {
		return nil, err
	}
	alarm, err := newAlarm()
	if err != nil {
		return nil, err
	}
	g := &Guard{
		tree: t, trouble: trouble, alarm: alarm, done: make(chan struct{}),
	}
	if err := g.spawn(); err != nil {
		alarm.close()
		return nil, err
	}
	g.send(order{Start: &start{Command: c, Deadline: d, Group: syscall.Getpgrp()}}, &d)
	go g.watch()
	return g, nil
}

// spawn starts the guard's process.
func (g *Guard) spawn() error {
	program, err := self()
	if err != nil {
		return err
	}
	mine, other, err := pair()
	if err != nil {
		return err
	}
	// Not by os/exec, which would change how the standard files are read.
	pid, err := syscall.ForkExec(program, []string{guardName, Hidden, strconv.Itoa(other)},
		&syscall.ProcAttr{
			Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
		})
	_ = syscall.Close(other)
	if err == nil {
		g.process, err = os.FindProcess(pid)
	}
	if err != nil {
		_ = mine.file.Close()
		return fmt.Errorf("start a guard for the command: %w", err)
	}
	g.link = mine
	return nil
}

// Renew tells the guard until when the command may run from now on.
func (g *Guard) Renew(d Deadline) { g.send(order{Deadline: &d}, &d) }

// Forward has the guard send a signal to the command's process group.
func (g *Guard) Forward(sig syscall.Signal) { g.send(order{Signal: int(sig)}, nil) }

// Look reports how long it takes to look at all processes of the command, as it
// is done to end them. That is long on a busy machine.
func (g *Guard) Look() time.Duration { return g.tree.Look() }

// send sends an order. One that does not arrive is of no consequence: the guard
// is dead.
func (g *Guard) send(o order, d *Deadline) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	_ = g.link.out.Encode(o)
	if d != nil && g.alarm.set(d.Late) != nil {
		_ = g.process.Kill() // without a timer of its own the wrapper could not watch it
	}
}

// Done is closed when no process of the command is left.
func (g *Guard) Done() <-chan struct{} { return g.done }

// Result is what became of the command, once Done is closed.
func (g *Guard) Result() Result { return g.result }

// watch returns when no process is left, whatever becomes of the guard.
func (g *Guard) watch() {
	defer close(g.done)
	defer g.close()
	reported := make(chan *Result, 1)
	go g.read(reported)
	ended := make(chan struct{})
	go func() {
		awaitStop(g.process)
		close(ended)
	}()
	late := false
	select {
	case <-ended:
	case <-g.alarm.C:
		late = true
	}
	_ = g.process.Kill() // it has ended, or has stopped, or is late
	if !late {
		if result := <-reported; result != nil {
			g.result = *result
			_, _ = g.process.Wait()
			return
		}
	}
	g.result = Result{Died: true, Cut: true}
	g.endOrphans()
}

// endOrphans ends the guard, and all that it has left, which the kernel has
// made ours. It does not wait for the guard's own end before that: a debugger,
// or the disk, may put it off.
func (g *Guard) endOrphans() {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		g.tree.Watch(func(int, syscall.WaitStatus) {})
	}()
	g.tree.Kill(gone, func(err error) { g.trouble(err.Error() + "; waiting until it ends") })
}

func (g *Guard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.alarm.close()
	_ = g.link.file.Close()
}

// read hears the guard's reports until its end. It sends what became of the
// command, nil if the guard did not say.
func (g *Guard) read(reported chan<- *Result) {
	var result *Result
	for {
		var r report
		if g.link.in.Decode(&r) != nil {
			reported <- result
			return
		}
		switch {
		case r.Gone:
			result = &r.Result
		case r.Trouble != "":
			g.trouble(r.Trouble)
		case r.Group != 0 && !tree.Whole:
			g.tree.Command(r.Group, true)
		}
	}
}
