// Package adapter is for who writes an adapter of another framework: what
// package lockmw does, with the answers that a framework's conventions need. An
// adapter of a job framework stands on package jobs. docs/write-an-adapter.md
// shows how.
package adapter

import (
	"context"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/lockmw/internal/scope"
	"github.com/lockbeat/lockbeat/renewer"
)

// Run is lockmw.Run that reports whether fn ran. If it did not, err says why
// the lock was not to be had, and [RefusalOf] sorts it. If it did, err is fn's,
// which may be the error of a lock that fn uses itself, with [renewer.ErrLost]
// joined as by lockmw.Run.
func Run[N lockmw.Name](
	ctx context.Context, k *renewer.Keeper, name N, fn func(context.Context) error,
	opts ...lockmw.Option,
) (ran bool, err error) {
	return scope.Run(ctx, k, names.Set(lockmw.All(name)), settings(opts), fn)
}

// Enter takes the lock on name for an operation that is not one function, such
// as a stream, a body that is read later, or a framework's Lock and Unlock. The
// operation runs on the context that Enter returns; exit frees the lock. The
// context and exit are nil if and only if the error is not.
//
// exit takes the operation's error and returns the caller's. It must be called,
// also after a panic, from any goroutine; a second call returns the error that
// it is given. A lock whose exit is never called is held until lockmw.MaxHold
// or renewer.Config.MaxHold ends it, or the keeper shuts down.
func Enter[N lockmw.Name](
	ctx context.Context, k *renewer.Keeper, name N, opts ...lockmw.Option,
) (operation context.Context, exit func(error) error, err error) {
	return scope.Enter(ctx, k, names.Set(lockmw.All(name)), settings(opts))
}

func settings(opts []lockmw.Option) option.Settings {
	return option.Of(option.Settings{}, opts, lockmw.Option.ForFunc)
}

// AnswerInTime refuses a call that has not got its lock when its context's
// deadline is near, so that the refusal reaches a caller in another process in
// time: a quarter of the time that is left before the deadline, at most 5 s.
// The error is [renewer.ErrBusy] or [renewer.ErrUnavailable]. It does not bound
// the function.
func AnswerInTime() lockmw.FuncOption {
	return lockmw.FuncOption{Set: func(s option.Settings) option.Settings {
		s.InTime = true
		return s
	}}
}

// NamesOf are the texts of the names in a set, in order; none of an invalid
// one.
func NamesOf(s lockmw.Set) []string { return names.Set(s).Texts() }

// WithFence returns a context in which lockmw.Fence is a token that a caller in
// another process has passed on, whose lock this process works under. While ctx
// runs under a lock of this process, that one's token stays. A fence of 0 hides
// all tokens around it, for work that runs without its lock. One below 0 or
// above 2^53-1 changes nothing.
//
// Take tokens only from callers that you trust: a resource that has seen one
// too high refuses all others.
func WithFence(ctx context.Context, fence int64) context.Context {
	return scope.WithFence(ctx, fence)
}
