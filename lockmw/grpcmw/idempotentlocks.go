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
	for name := range rules.methods {
		if in.replies[name] == nil {
			return nil, fmt.Errorf("lockbeat: grpcmw.IdempotentConfig.Locks has a rule for %s, "+
				"which is not among its Methods: give it to a UnaryServerInterceptor", name)
		}
	}
	return rules.methods, nil
}

// under is the lock that the handler of a call runs under, nil without one.
func (in *idempotent) under(ctx context.Context, method string, req any) once.Option {
	m, locked := in.locks[method]
	if !locked {
		return nil
	}
	return in.repeats.Under(m.key(ctx, req), m.opt)
}
