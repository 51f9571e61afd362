package quorum

import (
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// key is one acquisition.
type key struct{ name, owner string }

// lease is what the store knows of one acquisition: of one under way, one
// granted, or one that is being cleaned up behind. Guarded by Store.mu.
type lease struct {
	key     key
	ttl     time.Duration
	fence   int64 // the token that it was granted with; 0 if another Store acquired it
	granted bool  // and neither released nor lost since
	used    int64 // the highest token used, if it was released, and more were reserved
	asking  int   // calls of Acquire under way
	// counts those calls and releases: what was planned in an earlier epoch is obsolete
	epoch int
	good  instant       // the deadline counts from here, by what the caller has been told
	nodes []nodeState   // by node
	freed chan struct{} // closed when fewer releases are under way; nil if nobody waits for that
}

// seat is a lease's place on one node.
type nodeState struct {
	// confirmed is when the last request was sent that the node confirmed: it has the key
	// for a TTL from then on, unless somebody else than us takes it away. 0 if it does not.
	confirmed instant
	// refused is when the node last said no. Whatever was sent before does not count any
	// more: answers may overtake each other, and the no may have been the later one.
	refused instant
	// asked is when an acquire was sent that came back without an
	// answer, and may yet take effect; 0 if there is none. By Store.age.
	asked time.Duration
	// foul is until when a release without an answer may yet take effect, by Store.age.
	unsafeUntil time.Duration
	// freeing counts releases under way.
	freeing int
	// late tells that a grant came in meanwhile, which may have been made behind their back.
	late bool
}

// dirty tells that something of ours may be there.
func (s *nodeState) dirty() bool { return s.confirmed != 0 || s.asked != 0 || s.late }

// barred tells that a release under way might free what an acquire sent now would take.
func (s *nodeState) busy(age time.Duration) bool { return s.freeing > 0 || age < s.unsafeUntil }

func (s *nodeState) confirm(sent instant) {
	if sent > s.refused {
		s.confirmed = max(s.confirmed, sent)
	}
}

// book notes the answer to an acquire.
func (s *nodeState) record(status renewer.Status, sent instant, age time.Duration, now instant) {
	switch status {
	case renewer.StatusHeld:
		s.confirm(sent)
		if s.confirmed == 0 {
			s.confirmed = 1 // it may be there, but for no time that can be relied on
		}
	case renewer.StatusTaken:
		s.refuse(now)
	case renewer.StatusUnknown:
		s.asked = max(s.asked, age)
	case renewer.StatusGone, renewer.StatusBehind: // nothing has changed
	}
}

// leave is for a node where nothing of ours is any more, or nothing more is done about it.
func (s *nodeState) clear() { s.confirmed, s.asked, s.late = 0, 0, false }

func (s *nodeState) refuse(now instant) { s.confirmed, s.refused = 0, now }

// since is the instant from which the lease's TTL counts on n nodes:
// the n-th latest of their confirmations. 0 if fewer have the lease.
func (l *lease) since(n int) instant {
	var room [16]instant
	all := room[:0]
	for i := range l.nodes {
		all = append(all, l.nodes[i].confirmed)
	}
	slices.Sort(all)
	return all[len(all)-n]
}

// latest is the last confirmation by any node.
func (l *lease) latest() (t instant) {
	for i := range l.nodes {
		t = max(t, l.nodes[i].confirmed)
	}
	return t
}

// ledger has the leases that the store knows of. Guarded by Store.mu.
type leaseTable struct {
	leases  map[key]*lease
	sweepAt int
}

// sweepMin is the size below which looking for stale leases is not worth the trouble.
const sweepMin = 64

// freeing counts the nodes where a release is under way.
func (l *lease) freeing() (nodes int) {
	for i := range l.nodes {
		if l.nodes[i].freeing > 0 {
			nodes++
		}
	}
	return nodes
}

// open returns the lease of k, made if there is none.
func (s *Store) open(k key, ttl time.Duration) *lease {
	l := s.table.leases[k]
	if l == nil {
		if len(s.table.leases) >= max(s.table.sweepAt, sweepMin) {
			s.sweep()
		}
		l = &lease{key: k, nodes: make([]nodeState, len(s.nodes))}
		s.table.leases[k] = l
	}
	l.ttl = max(ttl, l.ttl)
	return l
}

// sweep forgets leases that nobody has renewed or released: those of a caller who does
// neither. Done each time their number has doubled, that costs O(1) a lease and no timer.
func (s *Store) sweep() {
	now := s.clock.now()
	for _, l := range s.table.leases {
		if l.granted && now.sub(l.latest()) > 2*l.ttl { // lapsed
			l.granted = false
			for i := range l.nodes {
				l.nodes[i].clear()
			}
		}
		s.forget(l)
	}
	s.table.sweepAt = 2 * len(s.table.leases)
}

// forget drops a lease of which nothing is left to be known.
func (s *Store) forget(l *lease) {
	if l.granted || l.asking > 0 {
		return
	}
	age := s.age()
	for i := range l.nodes {
		if seat := &l.nodes[i]; seat.dirty() || seat.busy(age) {
			return
		}
	}
	// What is still planned for it must not be done: it could free
	// what the same owner takes next, and that attempt would not know.
	l.epoch++
	if s.table.leases[l.key] == l {
		delete(s.table.leases, l.key)
	}
}
