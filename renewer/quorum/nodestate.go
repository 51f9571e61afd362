package quorum

import (
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// nodeState is what is known of one lease on one node. Invariant: if confirmed is not 0, the node
// holds the key for a TTL from confirmed on, unless it was freed since or the node forgot it.
type nodeState struct {
	// confirmed is when the last request was sent that the node confirmed; 0 if the node
	// does not have the key.
	confirmed timing.Instant
	// refused is when the node last said no. A yes to a request sent before does not count:
	// answers may overtake each other, and the no may be the later one.
	refused timing.Instant
	// asked is when an acquire was sent that came back without an answer, by nodeSet.age. It
	// may yet take effect. 0 if there is none.
	asked time.Duration
	// unsafeUntil is until when a release without an answer may take effect, by nodeSet.age.
	unsafeUntil time.Duration
	// freeing counts the releases under way.
	freeing int
	// late means that a grant came in during a release. The node may have made it after
	// that release.
	late bool
}

// dirty reports whether the node may have something of the owner's.
func (s *nodeState) dirty() bool { return s.confirmed != 0 || s.asked != 0 || s.late }

// busy reports whether a release under way might free what an acquire sent now would take.
func (s *nodeState) busy(age time.Duration) bool { return s.freeing > 0 || age < s.unsafeUntil }

// confirm records that the node has the key by a request sent then.
func (s *nodeState) confirm(sent timing.Instant) {
	if sent > s.refused {
		s.confirmed = max(s.confirmed, sent)
	}
}

// refuse records that the node does not have the key for the owner.
func (s *nodeState) refuse(now timing.Instant) { s.confirmed, s.refused = 0, now }

// clear is for a node that has nothing of the owner's, or for which nothing more is done.
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
