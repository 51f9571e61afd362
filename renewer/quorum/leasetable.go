package quorum

import (
	"sync"
	"time"
)

// minSweep is the size below which the table is not searched for lapsed leases.
const minSweep = 64

// leaseTable has the leases that the store knows. Invariant: a lease that is not idle is in it.
// Its mutex guards all that the leases lead to, and the cleaners' plans for them; what is called
// "under mu" is called with that mutex held.
type leaseTable struct {
	nodes *nodeSet

	mu      sync.Mutex
	leases  map[key]*lease
	sweepAt int
}

// open returns the lease of k, and makes it if there is none. Under mu.
func (t *leaseTable) open(k key, ttl time.Duration) *lease {
	l := t.leases[k]
	if l == nil {
		if len(t.leases) >= max(t.sweepAt, minSweep) {
			t.sweep()
		}
		l = &lease{key: k, nodes: make([]nodeState, len(t.nodes.all))}
		t.leases[k] = l
	}
	l.ttl = max(ttl, l.ttl)
	return l
}

// sweep forgets leases that were neither renewed nor released until they lapsed. The table is
// swept when it has doubled, which costs O(1) a lease and no timer. Under mu.
func (t *leaseTable) sweep() {
	now := t.nodes.clock.Now()
	for _, l := range t.leases {
		if l.granted && now.Sub(l.latest()) > 2*l.ttl { // lapsed
			l.granted = false
			for i := range l.nodes {
				l.nodes[i].clear()
			}
		}
		t.forget(l)
	}
	t.sweepAt = 2 * len(t.leases)
}

// forget drops a lease if it is idle. Under mu.
func (t *leaseTable) forget(l *lease) {
	if !l.idle(t.nodes.age()) {
		return
	}
	// What is still planned for it must not be done: it could free what the same owner
	// takes next, and that attempt would not know.
	l.epoch++
	if t.leases[l.key] == l {
		delete(t.leases, l.key)
	}
}
