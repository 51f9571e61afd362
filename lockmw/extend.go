package lockmw

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// ErrNotHeld means that a context runs under no lock.
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
