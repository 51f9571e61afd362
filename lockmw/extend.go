package lockmw

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// ErrNotHeld means that a context does not run under the lock that is asked about.
var ErrNotHeld = errors.New("lockbeat: not under the lock")

// Extend makes the innermost lock that ctx runs under last for d from now, or all of several taken
// by [Keys]. It must have been taken with [Manual]. See renewer.Lease.Extend for the errors; those
// of several are joined, and some may have been extended then. [ErrNotHeld] if ctx runs under no
// lock.
func Extend(ctx context.Context, d time.Duration) error {
	s := innermost(ctx)
	switch {
	case s == nil:
		return fmt.Errorf("%w: there is nothing to extend; call Extend with the context that the "+
			"function under the lock was given", ErrNotHeld)
	case s.all == nil:
		return s.lease.Extend(ctx, d)
	}
	errs := make([]error, len(s.all))
	unwind := sideBySide(len(s.all), func(i int) {
		one := s.all[i]
		err := one.lease.Extend(ctx, d)
		// A lock of an outer call is extended by that call's heartbeat.
		if one.outer == nil || !errors.Is(err, renewer.ErrConfig) {
			errs[i] = err
		}
	})
	if unwind != nil {
		unwind()
	}
	return errors.Join(errs...)
}

// Assert is for code that must only run under the lock on name: nil if ctx does and the lock
// is valid, by the clock. Otherwise the error is [ErrNotHeld], and a *renewer.LostError as
// well if the lock was lost. With a name made by [Keys] it asserts all of them.
func Assert(ctx context.Context, name string) error {
	for _, one := range split(name) {
		if err := Assert(ctx, one); err != nil {
			return err
		}
	}
	if split(name) != nil {
		return nil
	}
	var lost error
	for s := range scopes(ctx) {
		l := s.leaseOn(name)
		switch {
		case l == nil:
		case l.Valid():
			return nil
		case lost == nil:
			lost = l.Err()
		}
	}
	if lost != nil {
		return fmt.Errorf("%w: %w", ErrNotHeld, lost)
	}
	return fmt.Errorf("%w %q: take it around the call, with Do", ErrNotHeld, name)
}
