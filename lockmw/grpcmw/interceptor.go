package grpcmw

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc/metadata"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/maxhold"
	"github.com/lockbeat/lockbeat/renewer"
)

// interceptor is what the two have in common.
type interceptor struct {
	settings

	keeper *renewer.Keeper
	rules  map[string]*rule
}

// newInterceptor panics if the rules contradict each other, or are
// for calls that the interceptor does not get to see.
func newInterceptor(who string, k *renewer.Keeper, opts []Option, streams bool) *interceptor {
	set := newSettings(opts...)
	if k == nil {
		panic(fmt.Sprintf("lockbeat: grpcmw.%s needs a keeper (renewer.New)", who))
	}
	if set.fence && set.strip {
		panic(fmt.Sprintf("lockbeat: grpcmw.%s has AcceptFence and StripFence: accept tokens "+
			"behind the edge of the system, strip them at the edge", who))
	}
	if err := set.maxHold.Check(k); err != nil {
		panic(err.Error())
	}
	in := &interceptor{settings: set, keeper: k, rules: make(map[string]*rule, len(set.rules))}
	for _, r := range set.rules {
		if in.rules[r.method] != nil {
			panic(fmt.Sprintf("lockbeat: grpcmw.%s has two rules for %s: one call has one key; "+
				"chain two interceptors for two locks", who, r.method))
		}
		if service, _, _ := splitMethod(r.method); r.described == nil && !set.unlinked[service] {
			panic(fmt.Sprintf("lockbeat: grpcmw.%s has a rule for %s, and the program has no "+
				"generated code of the service %s, so that a typing error would go unnoticed: "+
				"correct the name, or give grpcmw.Unlinked(%q) if there is no such code", who,
				r.method, service, service))
		}
		if r.described != nil && isStream(r.described) != streams {
			panic(fmt.Sprintf("lockbeat: grpcmw.%s has a rule for %s, whose calls never come "+
				"here: it is %s method", who, r.method,
				map[bool]string{true: "a streaming", false: "a unary"}[!streams]))
		}
		r.opts = in.options(r.method)
		in.rules[r.method] = r
	}
	return in
}

// options are those for the locks of a method.
func (in *interceptor) options(method string) []lockmw.Option {
	operation := in.operation
	if operation == "" {
		operation = method
	}
	// Strict, so that lockmw returns every loss; what becomes of it
	// is decided here, since the status depends on it.
	opts := []lockmw.Option{
		lockmw.Wait(in.wait), lockmw.MaxWaiters(in.waiters), lockmw.Strict(),
		lockmw.Operation(operation), lockmw.AnswerInTime(),
	}
	opts = maxhold.AddTo(opts, in.maxHold, lockmw.MaxHold)
	if in.background {
		opts = append(opts, lockmw.ReleaseInBackground())
	}
	return opts
}

// run runs do under the lock of a call whose message, if the rule needs it, is msg. What it returns
// takes the place of do's error; nil if that stands.
func (in *interceptor) run(
	ctx context.Context, r *rule, msg any, do func(context.Context) error,
) *callError {
	key, bad := in.keyOf(ctx, r, msg)
	if bad != nil {
		return bad
	}
	doneWaiting, bad := in.countWaiter(ctx)
	if bad != nil {
		return bad
	}
	defer doneWaiting()
	var own, outer error
	ran, loss := lockmw.Run(ctx, in.keeper, key, func(ctx context.Context) error {
		doneWaiting()
		own = do(ctx)
		outer = lossIn(ctx)
		return nil // so that Run's error is the loss alone
	}, r.opts...)
	if !ran {
		return in.refused(loss)
	}
	return settled(loss, outer, own, in.strict)
}

// enter takes the lock on a key. The hold is nil if and only if the error is not.
func (in *interceptor) enter(ctx context.Context, r *rule, key string) (*hold, *callError) {
	doneWaiting, bad := in.countWaiter(ctx)
	if bad != nil {
		return nil, bad
	}
	defer doneWaiting()
	ctx, exit, err := lockmw.Enter(ctx, in.keeper, key, r.opts...)
	if err != nil {
		return nil, in.refused(err)
	}
	return &hold{ctx: ctx, strict: in.strict, exit: exit}, nil
}

// keyOf derives the key of a call.
func (in *interceptor) keyOf(ctx context.Context, r *rule, msg any) (string, *callError) {
	return r.keyOf(msg, func(name string) []string {
		return metadata.ValueFromIncomingContext(ctx, name)
	})
}

// countWaiter counts a call among those of its caller that wait for locks, until done is called,
// unless there are as many as may wait.
func (in *interceptor) countWaiter(ctx context.Context) (done func(), bad *callError) {
	if in.callers == nil {
		return func() {}, nil
	}
	caller := in.caller(ctx)
	if caller == "" {
		return nil, badKey("the call does not say who makes it, as it must where each caller may "+
			"wait only so often", nil)
	}
	if !in.callers.Take(caller) {
		return nil, in.quotaFull()
	}
	return sync.OnceFunc(func() { in.callers.Give(caller) }), nil
}
