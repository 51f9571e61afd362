package grpcmw

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"google.golang.org/grpc"

	"github.com/lockbeat/lockbeat/lockmw/internal/misuse"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/lockmw/internal/scope"
	"github.com/lockbeat/lockbeat/renewer"
)

// interceptor is what the two have in common.
type interceptor struct {
	settings

	keeper  *renewer.Keeper
	methods map[string]lockedMethod
	reports misuse.Reports
}

type lockedMethod struct {
	*rule

	opt option.Settings
}

// newInterceptor panics if the rules contradict each other, or are for calls
// that the interceptor does not get to see.
func newInterceptor(who string, k *renewer.Keeper, opts []Option, streams bool) *interceptor {
	in := &interceptor{
		settings: newSettings(opts), keeper: k, methods: make(map[string]lockedMethod),
		reports: newReports(k),
	}
	if err := in.bind(streams); err != nil {
		panic(fmt.Sprintf("lockbeat: grpcmw.%s %v", who, err))
	}
	in.MustSuit(k)
	return in
}

// bind finds the rules of methods, and an error if they can't be meant.
func (in *interceptor) bind(streams bool) error {
	if in.keeper == nil {
		return errors.New("needs a keeper (renewer.New)")
	}
	if in.accept && in.strip {
		return errors.New("has AcceptFence and StripFence: accept tokens behind the edge of the " +
			"system, strip them at the edge")
	}
	for _, r := range in.rules {
		m := r.method
		if m.stream != streams {
			return fmt.Errorf("has a rule for %s, whose calls never come here: streaming methods "+
				"belong to StreamServerInterceptor, others to UnaryServerInterceptor", m.name)
		}
		if _, twice := in.methods[m.name]; twice {
			return fmt.Errorf("has two rules for %s: one call has one key; chain two "+
				"interceptors for two locks", m.name)
		}
		opt := in.Settings
		opt.Operation = cmp.Or(opt.Operation, m.name)
		in.methods[m.name] = lockedMethod{r, opt}
	}
	return nil
}

// UnaryServerInterceptor runs the handlers of unary methods under the locks
// that their rules name. The lock is held until the handler returns, panics or
// exits, also when the caller has gone. The handler's context ends when the
// call's does or when the lock is lost.
//
// It panics if k is nil, on two rules for one method, on a rule for a streaming
// method, and on an option that is invalid.
func UnaryServerInterceptor(k *renewer.Keeper, opts ...Option) grpc.UnaryServerInterceptor {
	in := newInterceptor("UnaryServerInterceptor", k, opts, false)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler,
	) (reply any, err error) {
		ctx, err = in.receiveFence(ctx)
		if err != nil {
			return nil, err
		}
		m, locked := in.methods[info.FullMethod]
		if !locked {
			reply, err = handler(ctx, req)
			return reply, Respond(ctx, err)
		}
		failed := in.run(ctx, m, req, func(ctx context.Context) error {
			reply, err = handler(ctx, req)
			return err
		})
		if failed = cmp.Or(failed, translated(err)); failed != nil {
			return reply, failed.sent(ctx)
		}
		return reply, err
	}
}

// run runs do under the lock of a call whose message, if the rule needs it, is
// msg. What it returns takes the place of do's error; nil if that stands.
func (in *interceptor) run(
	ctx context.Context, m lockedMethod, msg any, do func(context.Context) error,
) *callError {
	doneWaiting, bad := in.countWaiter(ctx)
	if bad != nil {
		report(&in.reports, m.method.name, errors.Join(bad.causes...))
		return bad
	}
	defer doneWaiting()
	var own, outer error
	// Every loss is to be returned; what becomes of it is decided here, since
	// the status depends on it.
	m.opt.Strict = true
	ran, loss := scope.Run(ctx, in.keeper, m.key(ctx, msg), m.opt, func(ctx context.Context) error {
		doneWaiting()
		own = do(ctx)
		outer = lossIn(ctx)
		return nil // so that Run's error is the loss alone
	})
	if !ran {
		report(&in.reports, m.method.name, loss)
		return refused(loss)
	}
	return settled(loss, outer, own, in.Strict)
}

var errTooManyWait = errors.New("lockbeat: as many calls of the caller wait for locks as " +
	"MaxWaitersPerCaller allows")

// countWaiter counts a call among those of its caller that wait for locks,
// until done is called, unless there are as many as may wait.
func (in *interceptor) countWaiter(ctx context.Context) (done func(), bad *callError) {
	if in.callers == nil {
		return func() {}, nil
	}
	caller := in.caller(ctx)
	if caller == "" {
		return nil, anonymous()
	}
	if !in.callers.Take(caller) {
		return nil, quotaFull("too many calls of this caller wait for locks", errTooManyWait)
	}
	return sync.OnceFunc(func() { in.callers.Give(caller) }), nil
}

// settled is what takes the place of own, a call's own error, if the call was
// under a lost lock; nil if own stands. loss is the loss of the call's lock,
// outer one by which its context had ended.
func settled(loss, outer, own error, strict bool) *callError {
	switch {
	case own != nil && cmp.Or(loss, outer) != nil:
		return lostError(cmp.Or(loss, outer), own)
	case loss != nil && strict:
		return lostError(loss, nil)
	default:
		return nil
	}
}

// lossIn is the loss that a context has ended by, nil if it has not ended or by
// something else.
func lossIn(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, renewer.ErrLost) {
		return cause
	}
	return nil
}

// guard runs a stream's operation; it returns as soon as the lock is lost that
// ctx runs under, or the client has been silent for too long.
//
// gRPC hears nothing of such an end, and waits for the peer. So each operation
// has a goroutine of its own. After such an end it stays behind until the
// handler has returned, when gRPC ends the stream. It costs about a
// microsecond. One goroutine for all operations of a stream was rejected: it
// would have to be switched to and from as often, and to be ended.
func guard(ctx context.Context, do func() error) error {
	done := make(chan outcome, 1)
	go func() {
		o := outcome{fault: true}
		defer func() {
			if o.fault {
				o.panicked = recover()
			}
			done <- o
		}()
		o.err = do()
		o.fault = false
	}()
	select {
	case o := <-done:
		return o.unfold()
	case <-ctx.Done():
		if e := cutOff(ctx); e != nil {
			// what becomes of the operation does not matter any more, not even
			// if it panics
			return e
		}
		return (<-done).unfold() // the caller has gone, by which the stream has ended
	}
}

// cutOff is why this package has ended a stream's context; nil if it has not.
func cutOff(ctx context.Context) *callError {
	if loss := lossIn(ctx); loss != nil {
		return lostError(loss, nil)
	}
	if errors.Is(context.Cause(ctx), ErrSilence) {
		return silentError()
	}
	return nil
}

// outcome is how an operation went on its goroutine.
type outcome struct {
	err      error
	fault    bool // it did not return
	panicked any  // but panicked with this, or, if nil, exited
}

// unfold returns, panics or exits on this goroutine as the operation did on its
// own.
func (o outcome) unfold() error {
	switch {
	case o.panicked != nil:
		panic(o.panicked)
	case o.fault:
		runtime.Goexit()
	}
	return o.err
}
