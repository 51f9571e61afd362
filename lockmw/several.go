package lockmw

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// enterAll takes the locks on names, which are in order, all or none.
func enterAll(ctx context.Context, k *renewer.Keeper, names []string, set settings) (*scope, context.Context, error) {
	for _, name := range names {
		if err := renewer.CheckName(name); err != nil {
			return nil, nil, err
		}
	}
	until := time.Now().Add(set.wait)
	for {
		s, err := tryAll(ctx, k, names, set)
		if err != nil && set.contention == wait {
			s, err = enterInOrder(ctx, k, names, set, until)
		}
		switch {
		case err == nil:
			return s, s, nil
		case set.contention == wait && errors.Is(err, renewer.ErrLost) && context.Cause(ctx) == nil && time.Now().Before(until):
			// One was lost while another was waited for: nothing has run yet, so begin again.
		default:
			return nil, nil, set.refused(ctx, err)
		}
	}
}

// tryAll asks for all locks at once, which share a round trip, and does not wait for any.
func tryAll(ctx context.Context, k *renewer.Keeper, names []string, set settings) (*scope, error) {
	one := set
	one.contention = refuse
	if set.contention == wait {
		one.within = set.wait
	}
	scopes, errs := make([]*scope, len(names)), make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { scopes[i], _, errs[i] = enter(ctx, k, name, one) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			_ = freeAll(scopes, true) // what could not be freed lapses
			return nil, err
		}
	}
	return chain(ctx, k, scopes, set.strict), nil
}

// chain makes one scope of several that were taken side by side: its context is in all of them, and ends with each.
func chain(ctx context.Context, k *renewer.Keeper, scopes []*scope, strict bool) *scope {
	inner := ctx
	for i, s := range scopes {
		if s.inner {
			continue
		}
		own := s.lease.Context()
		joined, cancel := context.WithCancelCause(inner)
		context.AfterFunc(own, func() { cancel(context.Cause(own)) }) // which comes with the release at the latest
		scopes[i] = &scope{Context: joined, keeper: k, lease: s.lease}
		inner = scopes[i] //nolint:fatcontext // each is in the one before, as many as there are names
	}
	return together(inner, k, scopes, strict)
}

// enterInOrder takes one lock after the other, each under those before it.
func enterInOrder(ctx context.Context, k *renewer.Keeper, names []string, set settings, until time.Time) (*scope, error) {
	scopes := make([]*scope, 0, len(names))
	for _, name := range names {
		one := set
		one.wait = max(time.Until(until), 1)
		s, inner, err := enter(ctx, k, name, one)
		if err != nil {
			_ = freeAll(scopes, true)
			return nil, err
		}
		ctx, scopes = inner, append(scopes, s) //nolint:fatcontext // each is in the one before, as many as there are names
	}
	return together(ctx, k, scopes, set.strict), nil
}

// together is the scope of an operation on ctx that is under all of scopes.
func together(ctx context.Context, k *renewer.Keeper, scopes []*scope, strict bool) *scope {
	return &scope{Context: ctx, keeper: k, lease: scopes[0].lease, strict: strict, all: scopes}
}

// freeAll frees locks side by side, nil ones aside. The error is of those that were lost.
func freeAll(scopes []*scope, orderly bool) error {
	errs := make([]error, len(scopes))
	var wg sync.WaitGroup
	for i, s := range scopes {
		if s != nil {
			wg.Go(func() { errs[i] = s.free(orderly) })
		}
	}
	wg.Wait()
	var lost []error
	for _, err := range errs {
		if errors.Is(err, renewer.ErrLost) {
			lost = append(lost, err)
		}
	}
	return errors.Join(lost...)
}
