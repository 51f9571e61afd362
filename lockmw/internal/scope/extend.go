package scope

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// ErrNotHeld means that a context runs under no lock.
var ErrNotHeld = errors.New("lockbeat: not under the lock")

// Extend makes the innermost lock that ctx runs under last for d from now, or
// all of several taken by lockmw.All, one after the other until the store does
// not answer. It must have been taken with lockmw.Manual. See
// renewer.Lease.Extend for the errors; those of several are joined, and some
// may have been extended then. [ErrNotHeld] if ctx runs under no lock.
func Extend(ctx context.Context, d time.Duration) error {
	s := innermost(ctx)
	switch {
	case s == nil:
		return fmt.Errorf("%w: there is nothing to extend; call Extend with the context that the "+
			"function under the lock was given", ErrNotHeld)
	case s.all == nil:
		return s.lease.Extend(ctx, d)
	}
	var errs []error
	for _, one := range s.all {
		err := one.lease.Extend(ctx, d)
		if one.outer != nil && errors.Is(err, renewer.ErrConfig) {
			continue // a lock of an outer call is extended by that call's heartbeat
		}
		if errs = append(errs, err); errors.Is(err, renewer.ErrUnavailable) {
			break // the next question would take as long
		}
	}
	return errors.Join(errs...)
}
