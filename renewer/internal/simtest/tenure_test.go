package simtest_test

import (
	"fmt"
	"time"
)

// tenure is a time in which the server held a name for one owner
// token: the truth. It is guarded by the server's mutex.
type tenure struct {
	name, owner string
	process     int
	place       place         // from which it was claimed; its inbox is also without
	low, high   int64         // the fencing tokens that are the owner's
	ttl         time.Duration // of the claim
	claimed     time.Duration // by when it was
	from        time.Duration
	until       time.Duration // by the server's clock
	over        bool
	to          time.Duration // when over
	released    bool          // rather than lapsed
	era         int           // see [server.era]
	disturbed   bool          // the server has lost it, or its clock or renewals since
	kept        bool          // for as long as the owner wanted: it is to lapse
	carried     bool          // a release has granted it, and the owner has not asked since
	waited      bool          // another owner was refused, or stands in the line
	copied      *request      // of which it was granted to a copy; nil if to the first to arrive
}

func (t *tenure) String() string {
	end := "open"
	if t.over {
		end = fmt.Sprintf("%v released=%t", t.to, t.released)
	}
	return fmt.Sprintf("%s for %.4s of process %d, tokens %d..%d, from %v to %s", t.name, t.owner,
		t.process, t.low, t.high, t.from, end)
}

// last is the highest token that bars later ones: a server that has
// lost a tenure does not know what it had reserved.
func (t *tenure) last() int64 {
	if t.disturbed {
		return t.low
	}
	return t.high
}

// mayLapse reports whether nobody is to free it: the owner wanted it so, or has
// had an answer to the request, and can't know of the copy that came later.
func (t *tenure) mayLapse() bool {
	return t.disturbed || t.kept || t.copied != nil && t.copied.answered.Load()
}

// end settles that the tenure is over.
func (t *tenure) end(at time.Duration, released bool) {
	t.over, t.to, t.released = true, at, released
}
