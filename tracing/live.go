package tracing

import (
	"sync"

	"github.com/lockbeat/lockbeat/renewer"
)

// live finds the holds that have a span by what is told of their release, since that may come with any context: the one given to
// Lease.Release.
type live struct {
	mu    sync.Mutex
	holds map[leaseID]*record
}

// leaseID tells leases apart: no two of a name have the same fencing token.
type leaseID struct {
	name  string
	fence int64
}

func (l *live) add(r *record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holds == nil {
		l.holds = make(map[leaseID]*record)
	}
	l.holds[leaseID{r.name, r.fence}] = r
}

// take finds the record of a lease that is being released, nil if it has no span. The one that the context knows is preferred: it is
// nearly always the lease's, and can't be mistaken for that of a second store in this process.
func (l *live) take(known *record, e renewer.Released) *record {
	sure := known != nil && known.name == e.Name && known.fence == e.Fence
	if sure && known.hold == nil {
		return nil
	}
	id := leaseID{e.Name, e.Fence}
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.holds[id]
	if !sure {
		known = found
	}
	if known == found {
		delete(l.holds, id)
	}
	return known
}
