package lockmw

import (
	"context"
	"errors"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// takeAll takes the locks on names, which are in order, all or none.
func takeAll(ctx context.Context, k *renewer.Keeper, names []string, set settings) (*scope, error) {
	for _, name := range names {
		if err := renewer.CheckName(name); err != nil {
			return nil, err
		}
	}
	until := time.Now().Add(set.wait)
	for {
		for _, name := range names {
			if l := around(ctx, k, name); l != nil && l.Err() != nil {
				return nil, l.Err() // which no further attempt mends
			}
		}
		s, err := tryAll(ctx, k, names, set)
		if err != nil && set.contention == wait {
			s, err = takeInOrder(ctx, k, names, set, until)
		}
		switch {
		case err == nil:
			return s, nil
		case set.contention != wait || !errors.Is(err, renewer.ErrLost) || context.Cause(ctx) != nil || !time.Now().Before(until):
			return nil, set.refused(ctx, err)
		}
		// One was lost while another was waited for: nothing has run yet, so begin again.
	}
}

// around is the lease on name that ctx runs under, nil if there is none.
func around(ctx context.Context, k *renewer.Keeper, name string) *renewer.Lease {
	for s := range scopes(ctx) {
		if l := s.of(name); l != nil && s.keeper == k {
			return l
		}
	}
	return nil
}

// tryAll asks for all locks at once, which share a round trip, and does not wait for any.
func tryAll(ctx context.Context, k *renewer.Keeper, names []string, set settings) (*scope, error) {
	one := set
	one.contention = refuse
	if set.contention == wait {
		one.within = set.wait
	}
	taken, errs := make([]*scope, len(names)), make([]error, len(names))
	if unwind := sideBySide(len(names), func(i int) { taken[i], errs[i] = take(ctx, k, names[i], one) }); unwind != nil {
		_ = leaveAll(taken, false)
		unwind()
	}
	for _, err := range errs {
		if err != nil {
			_ = leaveAll(taken, true) // what could not be freed lapses
			return nil, err
		}
	}
	// The operation's context is in the first one's, and ends with each of the others' too.
	joined, cancel := context.WithCancelCause(taken[0])
	for _, s := range taken[1:] {
		if s.outer != nil && s.end == nil {
			continue // it is ctx, which joined is in
		}
		context.AfterFunc(s, func() { cancel(context.Cause(s)) }) // it ends when s is over, at the latest
	}
	all := together(joined, k, taken, set.strict)
	all.end = func() { cancel(errOver) }
	return all, nil
}

// takeInOrder takes one lock after the other, each under those before it.
func takeInOrder(ctx context.Context, k *renewer.Keeper, names []string, set settings, until time.Time) (*scope, error) {
	taken := make([]*scope, 0, len(names))
	over := false
	defer func() {
		if !over { // an observer or the store has panicked
			_ = leaveAll(taken, false)
		}
	}()
	for _, name := range names {
		one := set
		one.wait = max(time.Until(until), 1)
		s, err := take(ctx, k, name, one)
		if err != nil {
			over = true
			_ = leaveAll(taken, true)
			return nil, err
		}
		ctx, taken = s, append(taken, s) //nolint:fatcontext // each is in the one before, as many as there are names
	}
	over = true
	return together(ctx, k, taken, set.strict), nil
}

// together is the scope of an operation on ctx that is under all of taken. A call inside of it, for
// any of their names, keeps them all.
func together(ctx context.Context, k *renewer.Keeper, taken []*scope, strict bool) *scope {
	return (&scope{Context: ctx, keeper: k, lease: taken[0].lease, strict: strict, all: taken}).open()
}

// leaveAll leaves locks side by side, nil ones aside. The error is of those that were lost.
func leaveAll(taken []*scope, orderly bool) error {
	errs := make([]error, len(taken))
	unwind := sideBySide(len(taken), func(i int) {
		if taken[i] != nil {
			errs[i] = taken[i].leave(orderly)
		}
	})
	if unwind != nil {
		unwind()
	}
	var lost []error
	for _, err := range errs {
		if errors.Is(err, renewer.ErrLost) {
			lost = append(lost, err)
		}
	}
	return errors.Join(lost...)
}
