package quorum

import (
	"sync"
	"time"
)

// maxSkew is how far ahead of the local clock a node's counter may be and still be taken for
// another process's clock.
const maxSkew = time.Minute

// reserved is how many tokens a grant takes for hand-offs at most, so that none is further ahead of
// the clock than this. There are few, since a claim from another process that comes before its own
// clock has passed them must be put to the nodes twice.
const reserved = 100

// tokens picks the fencing tokens to propose: the wall clock in microseconds, strictly rising.
// They need not be unique among processes, since a node refuses the second of two equal ones.
type tokens struct {
	clock func() time.Time

	mu   sync.Mutex
	last int64
}

// next returns a token above every earlier one and above a counter seen at a node, 0 for none. lead
// is by how much it is ahead of the clock.
//
// A counter that is a little ahead comes from another process whose clock is. All later tokens are
// above it too, which spares the next name a broadcast. A counter that is far ahead concerns its
// name alone: it must not spread to every name.
func (t *tokens) next(above int64) (token, lead int64) {
	now := t.clock().UnixMicro()
	t.mu.Lock()
	defer t.mu.Unlock()
	token = max(t.last+1, now)
	if above >= token {
		token = above + 1
		if above-now > maxSkew.Microseconds() {
			return token, token - now
		}
	}
	t.last = token
	return token, token - now
}
