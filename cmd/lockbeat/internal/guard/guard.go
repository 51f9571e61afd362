//go:build unix

package guard

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/tree"
)

// guard is the state of the guard's process. It belongs to one goroutine.
type guard struct {
	link     *link
	tree     *tree.Tree
	terminal *terminal
	plan     plan
	killing  bool
	ended    bool // the command has
	result   Result
	held     map[syscall.Signal]*time.Timer // signals that are not passed on yet
	release  chan syscall.Signal            // which it is time to pass on
	events   chan event
	gone     chan struct{} // closed when no process is left
}

// event is that the command has ended or stopped.
type event struct{ status syscall.WaitStatus }

// Main is the guard's process. fd is its end of the socket. It returns when no
// process of the command is left.
func Main(fd int) error {
	// The command is killed when the thread that has started it ends: see
	// pdeathsig.
	runtime.LockOSThread()
	syscall.CloseOnExec(fd)
	rename()
	signals, stop := Catch(ending...)
	defer stop()
	g := &guard{
		link: newLink(fd), events: make(chan event, 1), gone: make(chan struct{}),
		held: make(map[syscall.Signal]*time.Timer), release: make(chan syscall.Signal),
	}
	var first order
	if g.link.in.Decode(&first) != nil || first.Start == nil {
		return nil // the wrapper is gone; a user who calls this by hand can't expect more
	}
	var err error
	if g.tree, err = tree.Adopt(); err != nil {
		return err
	}
	alarm, err := newAlarm()
	if err != nil {
		return err
	}
	defer alarm.close()
	g.plan = plan{deadline: first.Start.Deadline, grace: first.Start.Grace}
	if Now() < g.plan.deadline.Term {
		g.start(first.Start)
	} else {
		g.result.Cut = true
		close(g.gone)
	}
	if err := g.run(alarm, g.orders(), signals); err != nil {
		return err
	}
	g.terminal.giveBack()
	_ = g.link.out.Encode(report{Gone: true, Result: g.result}) // fails if the wrapper is gone
	return nil
}

// start starts the command.
func (g *guard) start(s *start) {
	attr := &syscall.ProcAttr{
		Env: withEnv(os.Environ(), s.Env), Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setpgid: true},
	}
	dieWithParent(attr.Sys)
	g.terminal = findTerminal(s.Group)
	g.terminal.place(attr.Sys)
	pid, err := syscall.ForkExec(s.Path, s.Args, attr)
	signal.Ignore(syscall.SIGTTOU) // not before: the command would ignore it too
	if err != nil {
		errno, _ := err.(syscall.Errno) //nolint:errorlint // it is not wrapped
		g.result.Failed, g.result.Errno = err.Error(), errno
		close(g.gone)
		return
	}
	g.tree.Command(pid, g.terminal.lead(pid))
	_ = g.link.out.Encode(report{Group: pid}) // fails if the wrapper is gone
	go func() {
		g.tree.Watch(func(child int, status syscall.WaitStatus) {
			if child == pid {
				g.events <- event{status}
			}
		})
		close(g.gone)
	}()
}

// orders are what the wrapper tells. The channel is closed when the wrapper is
// gone.
func (g *guard) orders() <-chan order {
	orders := make(chan order)
	go func() {
		defer close(orders)
		for {
			var o order
			if g.link.in.Decode(&o) != nil {
				return
			}
			orders <- o
		}
	}()
	return orders
}

// run goes on until nothing is left.
func (g *guard) run(alarm *alarm, orders <-chan order, signals <-chan os.Signal) error {
	for {
		if !g.killing {
			if err := alarm.set(g.plan.next()); err != nil {
				return err
			}
		}
		select {
		case o, ok := <-orders:
			switch {
			case !ok:
				orders = nil
				g.end()
			case o.Deadline != nil:
				g.plan.deadline = *o.Deadline
				if g.terminal.handed() {
					go g.tree.Wake() // it takes long on a busy machine
				}
			case o.Signal != 0:
				g.hear(syscall.Signal(o.Signal), false)
			}
		case s := <-signals:
			g.hear(s.(syscall.Signal), true) //nolint:forcetypeassert // on Unix it is one
		case sig := <-g.release:
			g.pass(sig)
		case e := <-g.events:
			g.heard(e.status)
		case <-alarm.C:
		case <-g.gone:
			select {
			case e := <-g.events: // which came before
				g.heard(e.status)
			default:
			}
			return nil
		}
		g.step()
	}
}

// heard takes note of what has become of the command.
func (g *guard) heard(status syscall.WaitStatus) {
	switch {
	case !status.Stopped():
		g.ended, g.result.Status = true, exitStatus(status)
		g.end()
	case status.StopSignal() == syscall.SIGTSTP && g.terminal.handed():
		// Ctrl-Z has stopped the command alone, of which no shell hears.
		g.tree.Forward(syscall.SIGCONT)
	}
}

// end begins to end all processes.
func (g *guard) end() {
	now := Now()
	if !g.plan.end(now) {
		return
	}
	g.result.Cut = !g.ended
	if now < g.plan.next() { // else they are killed at once
		go g.tree.Ask() // it takes long to find them on a busy machine, and SIGKILL can't wait
	}
}

// step does what it is time for.
func (g *guard) step() {
	if g.plan.due(Now()) {
		g.end()
	}
	if g.killing || !g.plan.ending || Now() < g.plan.next() {
		return
	}
	g.killing = true
	go g.tree.Kill(g.gone, func(err error) {
		text := err.Error() + "; waiting until it ends"
		if g.link.out.Encode(report{Trouble: text}) != nil { // the wrapper is gone
			_, _ = fmt.Fprintln(os.Stderr, "lockbeat:", text)
		}
	})
}

// exitStatus is a status as shells have it.
func exitStatus(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// withEnv sets variables, in place of those of the same name.
func withEnv(env, set []string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(old string) bool {
		name, _, _ := strings.Cut(old, "=")
		return slices.ContainsFunc(set, func(s string) bool {
			return strings.HasPrefix(s, name+"=")
		})
	})
	return append(env, set...)
}
