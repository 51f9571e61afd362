package quorum

import (
	"slices"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// key is one acquisition.
type key struct{ name, owner string }

// lease is one acquisition: under way, granted, or being cleaned up. Invariant:
// while granted, or while an Acquire is under way, no cleanup that was planned
// for it is carried out. Guarded by leaseTable.mu.
type lease struct {
	key     key
	ttl     time.Duration
	fence   int64 // the token that it was granted with; 0 if another Store acquired it
	granted bool  // and neither released nor lost since
	asking  int   // calls of Acquire under way
	// epoch counts those calls and releases: what was planned in an earlier
	// epoch is obsolete.
	epoch int
	good  timing.Instant // the deadline counts from here, by what the caller was told
	nodes []nodeState    // by node
	freed chan struct{}  // closed when fewer releases are under way; nil if no caller waits
}

// since is the instant from which the lease's TTL counts on enough nodes: the
// K-th latest of their confirmations; 0 if fewer have the lease.
func (l *lease) since() timing.Instant {
	var room [16]timing.Instant
	all := room[:0]
	for i := range l.nodes {
		all = append(all, l.nodes[i].confirmed)
	}
	slices.Sort(all)
	return all[len(all)-needed(len(all))]
}

// latest is the last confirmation by any node.
func (l *lease) latest() (t timing.Instant) {
	for i := range l.nodes {
		t = max(t, l.nodes[i].confirmed)
	}
	return t
}

// blocked reports whether a new grant can't get what it needs before a release
// that is under way is over. Its nodes are left out until then, and others are
// silent.
func (l *lease) blocked(nodes *nodeSet) bool {
	m := newMajority(len(nodes.all))
	age, soon := nodes.age(), false
	for x := range l.nodes {
		if l.nodes[x].busy(age) || nodes.all[x].silent(age) {
			m.failed++
		}
		soon = soon || l.freesSoon(nodes, x)
	}
	return soon && m.unavailable()
}

// freesSoon reports whether a release is under way on a node that answers.
func (l *lease) freesSoon(nodes *nodeSet, node int) bool {
	return l.nodes[node].freeing > 0 && !nodes.all[node].silent(nodes.age())
}

// idle reports whether nothing is left to know of the lease.
func (l *lease) idle(age time.Duration) bool {
	if l.granted || l.asking > 0 {
		return false
	}
	for i := range l.nodes {
		if n := &l.nodes[i]; n.dirty() || n.busy(age) {
			return false
		}
	}
	return true
}

// nodeState is what is known of one lease on one node. Invariant: if confirmed
// is not 0, the node holds the key for a TTL from confirmed on, unless it was
// freed since or the node forgot it.
type nodeState struct {
	// confirmed is when the last request was sent that the node confirmed; 0 if
	// the node does not have the key.
	confirmed timing.Instant
	// refused is when the node last said no. A yes to a request sent before
	// does not count: answers may overtake each other, and the no may be the
	// later one.
	refused timing.Instant
	// asked is when an acquire was sent that came back without an answer, by
	// nodeSet.age. It may yet take effect. 0 if there is none.
	asked time.Duration
	// unsafeUntil is until when a release without an answer may take effect, by
	// nodeSet.age.
	unsafeUntil time.Duration
	// freeing counts the releases under way.
	freeing int
	// late means that a grant came in during a release. The node may have made
	// it after that release.
	late bool
}

// dirty reports whether the node may have something of the owner's.
func (s *nodeState) dirty() bool { return s.confirmed != 0 || s.asked != 0 || s.late }

// busy reports whether a release under way might free what an acquire sent now
// would take.
func (s *nodeState) busy(age time.Duration) bool { return s.freeing > 0 || age < s.unsafeUntil }

// confirm records that the node has the key by a request sent then.
func (s *nodeState) confirm(sent timing.Instant) {
	if sent > s.refused {
		s.confirmed = max(s.confirmed, sent)
	}
}

// refuse records that the node does not have the key for the owner.
func (s *nodeState) refuse(now timing.Instant) { s.confirmed, s.refused = 0, now }

// clear is for a node that has nothing of the owner's, or for which nothing
// more is done.
func (s *nodeState) clear() { s.confirmed, s.asked, s.late = 0, 0, false }

// record notes the answer to an acquire.
func (s *nodeState) record(
	status store.Status, sent timing.Instant, age time.Duration, now timing.Instant,
) {
	switch status {
	case store.StatusHeld:
		s.confirm(sent)
		if s.confirmed == 0 {
			s.confirmed = 1 // it may be there, but for no time that can be relied on
		}
	case store.StatusTaken:
		s.refuse(now)
	case store.StatusUnknown:
		s.asked = max(s.asked, age)
	case store.StatusGone, store.StatusBehind: // nothing has changed
	}
}

// minSweep is the size below which the table is not searched for lapsed leases.
const minSweep = 64

// leaseTable has the leases that the store knows. Invariant: a lease that is
// not idle is in it. Its mutex guards all that the leases lead to, and the
// cleaners' plans for them; what is called "under mu" is called with that mutex
// held.
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

// sweep forgets leases that were neither renewed nor released until they
// lapsed. The table is swept when it has doubled, which costs O(1) a lease and
// no timer. Under mu.
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
	// What is still planned for it must not be done: it could free what the
	// same owner takes next, and that attempt would not know.
	l.epoch++
	if t.leases[l.key] == l {
		delete(t.leases, l.key)
	}
}
