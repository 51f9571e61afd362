package tracing

import (
	"context"
	"sync"

	"github.com/lockbeat/lockbeat/renewer"
)

// live finds the holds that have a span by what is told of their release, since that may come with any context: the one given to
// Lease.Release.
type live struct{ holds sync.Map }

// leaseID tells leases apart: no two of a name have the same fencing token.
type leaseID struct {
	name  string
	fence int64
}

func (l *live) add(r *record) { l.holds.Store(leaseID{r.name, r.fence}, r) }

// take finds the record of a lease that is being released, nil if it has no span. The context is asked first: it is nearly always the
// lease's, and can't be mistaken for that of a second store in this process.
func (l *live) take(o *Observer, ctx context.Context, e renewer.Released) *record {
	id := leaseID{e.Name, e.Fence}
	if r := o.find(ctx); r != nil && r.name == e.Name && r.fence == e.Fence {
		if r.hold != nil {
			l.holds.CompareAndDelete(id, r)
		}
		return r
	}
	r, _ := l.holds.LoadAndDelete(id)
	found, _ := r.(*record)
	return found
}
