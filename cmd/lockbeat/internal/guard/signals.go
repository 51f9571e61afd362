//go:build unix

package guard

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// Catch begins to catch signals. Those that are ignored, as by nohup, stay
// ignored, here and in the command, which finds the others as they were.
func Catch(which ...os.Signal) (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 64)
	for _, s := range which {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	return signals, func() { signal.Stop(signals) }
}

// ending are the signals by which the user, a terminal or the system asks a
// program to end.
var ending = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}

// soon is how long a signal that the wrapper has got may take to come to the
// guard, too.
const soon = 50 * time.Millisecond

// hear hears of a signal for the command, that the wrapper has got, or this
// process itself.
//
// What this process gets was sent to all of a unit, as by systemd, or to all
// below another guard. Then the command has it already, and has the grace to
// end. To pass it on at once would disturb that: a second signal makes some
// programs give up, and ends what a shell's trap has started.
func (g *guard) hear(sig syscall.Signal, own bool) {
	held := g.held[sig]
	switch {
	case own:
		if held != nil {
			held.Stop()
		}
		g.hold(sig, g.plan.grace)
	case !slices.Contains(ending, os.Signal(sig)):
		g.pass(sig)
	case held == nil:
		g.hold(sig, soon)
	}
}

// hold passes a signal on after a while.
func (g *guard) hold(sig syscall.Signal, d time.Duration) {
	g.held[sig] = time.AfterFunc(d, func() { g.release <- sig })
}

// pass passes a signal on to the command. One that is to end it also lets it go
// on if it is stopped, or it would not hear.
func (g *guard) pass(sig syscall.Signal) {
	delete(g.held, sig)
	if sig == syscall.SIGCONT {
		g.terminal.handOn() // if a shell has brought the wrapper to the foreground
	}
	if !g.terminal.sends(sig) {
		g.tree.Forward(sig)
	}
	if slices.Contains(ending, os.Signal(sig)) {
		g.tree.Forward(syscall.SIGCONT)
	}
}
