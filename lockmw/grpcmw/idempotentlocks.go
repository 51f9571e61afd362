package grpcmw

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw/once"
)

// lockRules returns the rules of Locks, by method.
func (in *idempotent) lockRules() (map[string]lockedMethod, error) {
	rules := newInterceptor("IdempotentConfig.Locks", in.keeper, in.Locks, false)
	if rules.callers != nil || rules.accept || rules.strip || rules.silence != defaultSilence {
		return nil, errors.New("lockbeat: grpcmw.IdempotentConfig.Locks takes rules and options " +
			"of locks: give MaxWaitersPerCaller, Silence, AcceptFence and StripFence to an " +
			"interceptor further out")
	}
	locks := make(map[string]lockedMethod, len(rules.methods))
	for name, m := range rules.methods {
		if in.replies[name] == nil {
			return nil, fmt.Errorf("lockbeat: grpcmw.IdempotentConfig.Locks has a rule for %s, "+
				"which is not among its Methods: give it to a UnaryServerInterceptor", name)
		}
		m.opt = rules.locking(name)
		locks[name] = m
	}
	return locks, nil
}

// under is the lock that the handler of a call runs under, nil without one.
func (in *idempotent) under(ctx context.Context, method string, req any) (once.Option, *callError) {
	m, locked := in.locks[method]
	if !locked {
		return nil, nil
	}
	set, bad := m.keyOf(ctx, req)
	if bad != nil {
		return nil, bad
	}
	return in.repeats.Under(set, m.opt), nil
}
