package scope

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/intx"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/lockmw/internal/profile"
	"github.com/lockbeat/lockbeat/lockmw/internal/unwind"
	"github.com/lockbeat/lockbeat/renewer"
)

// DefaultWait is how long a caller waits in line unless told otherwise.
const DefaultWait = 10 * time.Second

// ErrSkipped is lockmw.ErrSkipped.
var ErrSkipped = errors.New("lockbeat: skipped, another caller is at it")

// Run runs fn under the locks of a set, and reports whether it ran. The locks
// are held until fn has returned, panicked or called runtime.Goexit; a panic
// passes through. Locks whose fn did not return are freed for all processes,
// rather than handed to the next caller of this one.
func Run(
	ctx context.Context, k *renewer.Keeper, set names.Set, opt option.Settings,
	fn func(context.Context) error,
) (ran bool, err error) {
	if k == nil || fn == nil {
		return false, fmt.Errorf("%w: a lock needs a keeper (renewer.New) and a function",
			renewer.ErrConfig)
	}
	fn = Labelled(k, set, opt.Operation, fn)
	s, err := enter(ctx, k, set, opt)
	if err != nil {
		local, leave := admit(ctx, k, set, opt, err)
		if leave == nil {
			return false, err
		}
		defer leave()
		return true, fn(local)
	}
	return true, unwind.Then(func() error { return fn(s) }, s.exit)
}

// Labelled is a function with labels in profiles, if the keeper's are to have
// them.
func Labelled(
	k *renewer.Keeper, set names.Set, operation string, fn func(context.Context) error,
) func(context.Context) error {
	if !k.Config().ProfileLabels {
		return fn
	}
	return profile.Labelled(fn, set.Texts(), operation)
}

// Enter takes the locks of a set for an operation that is not one function.
// exit takes the operation's error and returns the caller's. It must be called,
// also after a panic, from any goroutine; a second call returns the error that
// it is given.
func Enter(
	ctx context.Context, k *renewer.Keeper, set names.Set, opt option.Settings,
) (operation context.Context, exit func(error) error, err error) {
	if k == nil {
		return nil, nil, fmt.Errorf("%w: a lock needs a keeper (renewer.New)", renewer.ErrConfig)
	}
	s, err := enter(ctx, k, set, opt)
	if err != nil {
		local, leave := admit(ctx, k, set, opt, err)
		if leave == nil {
			return nil, nil, err
		}
		leave = sync.OnceFunc(leave)
		return local, func(err error) error { leave(); return err }, nil
	}
	return s, s.exit, nil
}

// enter takes the locks for an operation that begins now.
func enter(
	ctx context.Context, k *renewer.Keeper, set names.Set, opt option.Settings,
) (s *scope, err error) {
	growStack()
	w, one, err := set.One()
	if err := cmp.Or(opt.Err, err); err != nil {
		return nil, err
	}
	switch opt.Wait {
	case 0:
		opt.Wait = DefaultWait
	case option.NoBound:
		opt.Wait = forever
	}
	if opt.InTime {
		bound(ctx, &opt)
	}
	if one {
		s, err = takeOne(ctx, k, w, opt)
	} else {
		s, err = takeAll(ctx, k, set, opt)
	}
	if err != nil {
		return nil, err
	}
	if opt.Least > 0 {
		s.holdAtLeast(opt.Least)
	}
	return s, nil
}

// forever is option.NoBound as a time that can be added to an instant.
const forever time.Duration = math.MaxInt64 / 2

// takeOne acquires a lock or a slot, or finds it in the context.
func takeOne(
	ctx context.Context, k *renewer.Keeper, w names.Want, opt option.Settings,
) (*scope, error) {
	if innermost(ctx) != nil {
		if inner, err := reenter(ctx, k, w.ID(), opt.Strict); inner != nil || err != nil {
			return inner, err
		}
	}
	checkTransaction(ctx, k, w, opt)
	lease, err := k.Acquire(ctx, request(ctx, k, w, opt))
	if err != nil {
		return nil, refused(err, opt)
	}
	return newScope(k, lease, w.Limit != nil, opt.Strict), nil
}

// request is what the keeper is asked for.
func request(
	ctx context.Context, k *renewer.Keeper, w names.Want, opt option.Settings,
) renewer.Request {
	r := renewer.Request{
		Name: w.Name, Limit: w.Limit, Rank: w.Rank, Operation: opt.Operation,
		MaxWait: opt.Wait, MaxHold: opt.MaxHold, Manual: opt.Manual, Newest: opt.Newest,
		RefusalExpected: opt.Expected || opt.Contention == option.Skips,
		Nested:          innermost(ctx) != nil && underLockOf(ctx, k),
	}
	if opt.Contention != option.Waits {
		r.Try, r.MaxWait = true, opt.Within
	} else if opt.Wait >= forever {
		r.MaxWait = 0
	}
	if opt.Waiters < math.MaxInt32 {
		r.MaxWaiters = int(opt.Waiters)
	}
	return r
}

// holdAtLeast is lockmw.HoldAtLeast for an operation that begins now. It is not
// asked for with the acquire, since one of several locks may be given back
// before anything has run.
func (s *scope) holdAtLeast(d time.Duration) {
	for l := range s.leases() {
		l.HoldAtLeast(d)
	}
}

// refused is the caller's error.
func refused(err error, opt option.Settings) error {
	if opt.Contention != option.Skips || !errors.Is(err, renewer.ErrBusy) ||
		errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return skippedError{err}
}

// skippedError is ErrSkipped with the text of a refusal. It is not
// [renewer.ErrBusy].
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

// withLoss joins a loss to an operation's error, unless an inner call has done
// so already.
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

// checkTransaction reports a lock that is to be waited for inside a
// transaction, of package sqlrecord or begun under a lock by a connection that
// carries fences: while it is waited for, nobody else has the transaction's
// connection and rows, not even the holder of the lock, who may need them to
// come to its end. The keeper's observer is told, once for each recorder or
// database. The call goes on: it may get its lock at once. One that does not
// wait keeps nothing from anybody.
func checkTransaction(
	ctx context.Context, k *renewer.Keeper, w names.Want, opt option.Settings,
) {
	if opt.Contention != option.Waits {
		return
	}
	first, of := intx.Of(ctx), "sqlrecord"
	for held := range Leases(ctx) {
		if first == nil {
			first, of = intx.OpenIn(held.Lease), "fencedb"
		}
	}
	if first == nil {
		return
	}
	first.Do(func() {
		k.Observer().Fault(renewer.Fault{Doing: "wait for a lock", Name: w.Name, Err: fmt.Errorf(
			"%w: the operation %q asks for a lock inside a transaction of %s. While it "+
				"waits, it keeps a connection of the database, and the rows that it has written, "+
				"from the lock's holder and from all others; and the lock is free before the "+
				"transaction is committed. Name the lock by idempotent.Config.Lock, by "+
				"grpcmw.IdempotentConfig.Locks or by once.Under, which take it before the "+
				"transaction begins; or take it further out",
			renewer.ErrConfig, opt.Operation, of)})
	})
}

// stackRoom is what the lock takes of a goroutine's stack, down to the client's
// connection: 9 kB.
const stackRoom = 9 << 10

// growStack gives the goroutine the stack that the lock needs, at once. A new
// goroutine, as gRPC and asynq have one for each call, begins with a few kB;
// the stack doubles each time that it is used up, and is copied frame by frame:
// up to three times on the way, and once from here, where there are few frames.
//
//go:noinline
func growStack() {
	var room [stackRoom]byte
	runtime.KeepAlive(&room)
}

// A call for a name that its context holds already runs inside that lease. An
// inner call may outlive the outer one, so each scope counts its own call and
// the inner ones. The last call to leave ends the scope; the last one of the
// outermost scope frees the lock. No call waits for another.

// reenter begins a call inside the lease that ctx runs under; nil if there is
// none. The error is why that lease is lost.
func reenter(
	ctx context.Context, k *renewer.Keeper, on names.ID, strict bool,
) (*scope, error) {
	for outer := range scopes(ctx) {
		lease := outer.leaseOn(on)
		if outer.keeper != k || lease == nil {
			continue
		}
		if err := lease.Err(); err != nil {
			return nil, err
		}
		if lease.Valid() && outer.join() {
			inner := (&scope{
				Context: ctx, keeper: k, lease: lease, limited: on.Limited, strict: strict,
				outer: outer,
			}).open()
			if ctx.Done() != outer.Done() {
				inner.follow(ctx)
			}
			return inner, nil
		}
	}
	return nil, nil //nolint:nilnil // neither
}

// join counts in an inner call, unless the scope is over.
func (s *scope) join() bool {
	for n := s.users.Load(); n > 0; n = s.users.Load() {
		if s.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// follow makes the context of an inner call end with the lease: ctx may have
// been detached from it, and the outer context may have ended before, with its
// caller.
func (s *scope) follow(ctx context.Context) {
	joined, cancel := context.WithCancelCause(ctx)
	var stops []func()
	for l := range s.outer.leases() {
		stops = append(stops, l.OnLoss(func() { cancel(l.Err()) }))
	}
	s.Context, s.end = joined, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(errOver)
	}
}

// lost is why a lease of the scope is lost, nil if none is.
func (s *scope) lost() error {
	var lost []error
	for l := range s.leases() {
		if err := l.Err(); err != nil {
			lost = append(lost, err)
		}
	}
	if len(lost) == 1 {
		return lost[0]
	}
	return errors.Join(lost...)
}

// leave counts out a call. The last one ends the scope, and frees the lock if
// the scope is the outermost. The error is [renewer.ErrLost] if the lock is
// lost, or turns out to be.
func (s *scope) leave(orderly bool) error {
	last, orderly := s.countOut(orderly)
	switch {
	case !last:
		return s.lost()
	case s.all != nil:
		return leaveAll(s.all, orderly)
	case s.outer != nil:
		return s.outer.leave(orderly)
	case orderly:
		return s.lease.Release(s.Context)
	default:
		return s.lease.Abort(s.Context)
	}
}

// countOut counts out a call, and ends the scope if it is the last one. all
// reports whether all of them, this one too, were orderly.
func (s *scope) countOut(orderly bool) (last, all bool) {
	if !orderly {
		s.unwound.Store(true)
	}
	if s.users.Add(-1) > 0 {
		return false, false
	}
	if s.end != nil {
		s.end()
	}
	return true, !s.unwound.Load()
}
