package simtest_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// request is one to the server, as it travels.
type request struct {
	process  int
	inbox    int // of its link
	sent     time.Duration
	claims   []store.Claim   // of an Acquire
	since    []time.Duration // when the places of claims came, by the server's clock; 0: unknown
	first    []store.Claim   // from each of these
	holds    []store.Hold    // of a Renew or a Release
	renew    bool
	answered atomic.Bool // its caller has had a reply to it
	left     atomic.Bool // its caller has gone without one
	done     bool        // the server has had it before; guarded by its mutex
}

func (r *request) String() string {
	var b strings.Builder
	for _, c := range r.claims {
		fmt.Fprintf(&b, "acquire %q for %.6s from place %d, TTL %v ", c.Name,
			c.Owner, c.Place, c.TTL)
	}
	for _, h := range r.holds {
		fmt.Fprintf(&b, "%s %q of %.6s with place %d, TTL %v, keep %v ",
			map[bool]string{
				true:  "renew",
				false: "release",
			}[r.renew], h.Name, h.Owner, h.Place, h.TTL, h.Keep)
	}
	return b.String()
}

// reply is the server's, of which one half is filled.
type reply struct {
	grants  []store.Grant
	since   []time.Duration // when the places of claims came
	answers []store.Answer
}

func (p reply) String() string {
	var b strings.Builder
	for _, g := range p.grants {
		fmt.Fprint(&b, g.Status, " ", g.Fence, " ")
	}
	for _, a := range p.answers {
		fmt.Fprint(&b, a.Status, " ")
	}
	return b.String()
}
