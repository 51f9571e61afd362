//go:build unix

package run

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/exit"
)

// passed are the signals that the command gets from us.
var passed = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1,
	syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT,
}

// signalled is the cause of a context that a signal has ended.
type signalled struct{ syscall.Signal }

func (s signalled) Error() string { return fmt.Sprintf("signal %d came", int(s.Signal)) }

// untilSignal returns a context that ends when a signal comes that would end a
// program, for as long as there is no command to pass it on to. stop ends that;
// what comes later stays in the channel.
func untilSignal(
	parent context.Context, signals <-chan os.Signal,
) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case s := <-signals:
				if s != syscall.SIGWINCH && s != syscall.SIGCONT {
					cancel(signalled{s.(syscall.Signal)}) //nolint:forcetypeassert // on Unix it is
				}
			case <-over:
				return
			}
		}
	}()
	return ctx, func() { close(over); <-ended }
}

// interrupted is the error of a run that a signal has ended before there was a
// command: without a word, as with any program. nil if none has.
func interrupted(ctx context.Context) error {
	if s, ok := context.Cause(ctx).(signalled); ok { //nolint:errorlint // it is never wrapped
		return &exit.Error{Status: exit.Signalled + int(s.Signal)}
	}
	return nil
}
