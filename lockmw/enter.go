package lockmw

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/naming"
	"github.com/lockbeat/lockbeat/lockmw/internal/unwind"
	"github.com/lockbeat/lockbeat/renewer"
)

// Enter takes the lock on name for an operation that is not one function, such as a stream, a body
// that is read later, or a framework's Lock and Unlock; for one function use [Run]. The operation
// runs on the context that Enter returns; exit frees the lock. The context and exit are nil if and
// only if the error is not; [RefusalOf] sorts the error.
//
// exit takes the operation's error and returns the caller's: see the package's text. It must be
// called, also after a panic, from any goroutine; a second call returns the error that it is given.
// A lock whose exit is never called is held until [MaxHold] or renewer.Config.MaxHold ends it, or
// until the keeper shuts down.
func Enter(
	ctx context.Context, k *renewer.Keeper, name string, opts ...Option,
) (operation context.Context, exit func(error) error, err error) {
	if k == nil {
		return nil, nil, fmt.Errorf("%w: Enter needs a keeper (renewer.New)", renewer.ErrConfig)
	}
	set := newSettings(opts)
	s, err := enter(ctx, k, name, set)
	if err != nil {
		local, leave := set.admit(ctx, k, name, err)
		if leave == nil {
			return nil, nil, err
		}
		leave = sync.OnceFunc(leave)
		return local, func(err error) error { leave(); return err }, nil
	}
	return s, s.exit, nil
}

// enter takes the lock for an operation that begins now.
func enter(ctx context.Context, k *renewer.Keeper, name string, set settings) (*scope, error) {
	growStack()
	s, err := take(ctx, k, name, set)
	if err != nil {
		return nil, err
	}
	s.holdAtLeast(set.least)
	return s, nil
}

// take acquires the lock, or the locks if the name stands for several, or finds it in the context.
func take(ctx context.Context, k *renewer.Keeper, name string, set settings) (*scope, error) {
	if set.inTime {
		set = set.bounded(ctx)
	}
	name, set = set.ranked(name)
	name, err := set.asLimits(name)
	if err := cmp.Or(err, set.checkShare(name), set.checkNewest(name)); err != nil {
		return nil, err
	}
	if names := naming.Split(name); names != nil {
		return takeAll(ctx, k, names, set)
	}
	if err := tooMany(name); err != nil {
		return nil, err
	}
	if inner, err := reenter(ctx, k, name, set.strict); inner != nil || err != nil {
		return inner, err
	}
	set.checkTransaction(ctx, k, name)
	lease, err := set.acquire(ctx, k, name)
	if err != nil {
		return nil, set.refused(err)
	}
	return newScope(k, lease, set.strict), nil
}

// holdAtLeast is [HoldAtLeast] for an operation that begins now. It is not asked for with the
// acquire, since one of several locks may be given back before anything has run.
func (s *scope) holdAtLeast(d time.Duration) {
	if d <= 0 {
		return
	}
	for l := range s.leases() {
		l.HoldAtLeast(d)
	}
}

// refused is the caller's error.
func (s settings) refused(err error) error {
	if s.contention != skip || !errors.Is(err, renewer.ErrBusy) ||
		errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return skippedError{err}
}

// skippedError is ErrSkipped with the text of a refusal. It is not [renewer.ErrBusy].
type skippedError struct{ refusal error }

func (e skippedError) Error() string { return e.text(e.refusal.Error()) }

// Nameless is Error without the lock's name: see [renewer.ErrorText].
func (e skippedError) Nameless() string { return e.text(renewer.ErrorText(e.refusal)) }

func (e skippedError) Unwrap() error { return ErrSkipped }

func (skippedError) text(refusal string) string {
	return ErrSkipped.Error() + ": " + strings.TrimPrefix(refusal, "lockbeat: ")
}

// errOver is why the context of an operation has ended that is over.
var errOver = fmt.Errorf("lockbeat: the operation is over: %w", context.Canceled)

// exit leaves the lock and settles what the caller gets to know of a loss.
func (s *scope) exit(err error) error {
	if s.left.Swap(true) {
		return err
	}
	lost := s.leave(!errors.Is(err, unwind.Err))
	switch {
	case !errors.Is(lost, renewer.ErrLost):
		return err // a key that could not be freed lapses; the caller's result stands
	case err == nil && !s.strict:
		return nil
	default:
		return withLoss(err, lost)
	}
}

// withLoss joins a loss to an operation's error, unless an inner call has done so already.
func withLoss(err, lost error) error {
	switch {
	case err == nil:
		return lost
	case errors.Is(err, lost):
		return err
	default:
		return errors.Join(err, lost)
	}
}
