package quorum

import (
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// key is one acquisition.
type key struct{ name, owner string }

// lease is one acquisition: under way, granted, or being cleaned up. Invariant: while granted, or
// while an Acquire is under way, no cleanup that was planned for it is carried out. Guarded by
// leaseTable.mu.
type lease struct {
	key     key
	ttl     time.Duration
	fence   int64 // the token that it was granted with; 0 if another Store acquired it
	granted bool  // and neither released nor lost since
	asking  int   // calls of Acquire under way
	// epoch counts those calls and releases: what was planned in an earlier epoch is obsolete.
	epoch int
	good  timing.Instant // the deadline counts from here, by what the caller was told
	nodes []nodeState    // by node
	freed chan struct{}  // closed when fewer releases are under way; nil if no caller waits
}

// since is the instant from which the lease's TTL counts on enough nodes: the K-th latest of their
// confirmations; 0 if fewer have the lease.
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

// blocked reports whether a new grant can't get what it needs before a release that is under way
// is over. Its nodes are left out until then, and others are silent.
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
