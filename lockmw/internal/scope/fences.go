package scope

import (
	"context"
	"iter"

	"github.com/lockbeat/lockbeat/renewer"
)

// Hold is a lock or a slot that an operation runs under.
type Hold struct {
	*renewer.Lease

	Keeper  *renewer.Keeper
	Limited bool // a slot
}

// Leases are those of this process that ctx runs under, the innermost first. A
// lock that an inner call has found again comes once for each call.
func Leases(ctx context.Context) iter.Seq[Hold] {
	return func(yield func(Hold) bool) {
		for s := range scopes(ctx) {
			if s.all == nil {
				if !yield(Hold{s.lease, s.keeper, s.limited}) {
					return
				}
				continue
			}
			for _, one := range s.all {
				if !yield(Hold{one.lease, one.keeper, one.limited}) {
					return
				}
			}
		}
	}
}
