package native

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
)

// The model plays every order of the events of two clients of one lock, over a
// primary and a replica that lags, and looks for a token that is not above
// those of all earlier holders. A native claim is SET NX, then INCR of the
// mark, then the reply. Times and tokens are small integers: the clock gains 2
// a tick, so that the mark stays behind it, as in life.

const (
	floor   = 8 // tokens below are those of a fresh counter (10^15 in life)
	start   = 12
	clients = 2
	none    = 120
)

// world is what may go wrong.
type world struct {
	name     string
	survives bool // connections outlive a fail-over: a proxy
	alive    bool // the former primary answers until the client turns away
	cut      int  // ticks from the last replicated write to the replica's answer; -1: one server
}

var (
	oneServer = world{"one server", false, false, -1}
	dead      = world{"Sentinel, the primary is dead", false, false, 3}
	alive     = world{"Sentinel, the primary is alive, at once", false, true, 0}
	proxy     = world{"a proxy, after a while", true, true, 3}
	proxyNow  = world{"a proxy, at once", true, true, 0}
)

var ours = rule{near: 1, quiet: true, atomic: true}

// Tokens rise, but for what docs/safety.md admits. And each planted fault is
// found.
func TestTokensOfNativeClaimsRise(t *testing.T) {
	t.Parallel()
	most := suite.Size(60_000, 1_500_000)
	for _, w := range []world{oneServer, dead, alive, proxy} {
		for name, r := range map[string]rule{"ours": ours, "scripts alone": {near: -1}} {
			assert.Empty(t, explore(r, w, most), "%s: %s", w.name, name)
		}
	}
	for name, c := range map[string]struct {
		rule  rule
		world world
	}{
		"admitted: behind a proxy, at once": {ours, proxyNow},
		"INCR before SET":                   {rule{near: 1, quiet: true, incrFirst: true}, oneServer},
		"no transaction":                    {rule{near: 1, quiet: true}, oneServer},
		"any token but a fresh counter's":   {rule{quiet: true, atomic: true}, proxy},
		"at any time after a connection":    {rule{near: 1, atomic: true}, alive},
		"connections are counted":           {rule{counted: true, atomic: true}, alive},
		"a while after the caller's script": {rule{window: 2, atomic: true}, alive},
	} {
		assert.NotEmpty(t, explore(c.rule, c.world, 150_000), "not found: %s", name)
	}
}

// rule is a way to use native claims.
type rule struct {
	atomic    bool // MULTI … EXEC
	counted   bool // by script until one was answered since the newest connection was made
	window    int  // > 0: within so many ticks of the caller's own script claim
	near      int  // > 0: the answer is at most so far behind the clock that the caller reckons
	quiet     bool // no native claim from a new connection until two ticks after the switch
	incrFirst bool
}

// play is a rule in a world.
type play struct {
	rule
	world
}

type server struct{ mark, lease int8 } // 0: none; lease: client+1

type client struct {
	phase         int8 // 0 idle, 1 half of a native claim, 2 both, 3 has it, 4 asks by script
	at            int8 // which server it talks to
	half          int8 // token by INCR
	old           bool // a connection was made since it sent
	before, after int8 // tokens of those who had the lock before and after
	token, top    int8
	lifted        bool // draft: a script was answered since the newest connection was made
	age           int8 // ticks since its script claim was answered, -1 never
	reckoned      int8 // its idea of the clock
	quiet         int8
}

type state struct {
	s                            [2]server // 0 the primary at first
	primary                      int8
	clock                        int8
	linked                       bool
	down                         int8 // ticks since the link was cut
	high                         int8 // highest token of all who had it
	c                            [clients]client
	ticks, backs, wipes, dels, f int8
	claims                       int8
	last                         int8 // who made a lease last
	answered                     bool // the new primary has given a lease
}

type step struct {
	from *node
	what string
}
type node struct {
	st  state
	via step
}

// explore returns the events up to the first token that does not rise, of so
// many states at most.
func explore(what rule, where world, most int) (trace []string) {
	r := play{what, where}
	var s state
	s.clock, s.linked, s.ticks, s.backs, s.wipes, s.dels, s.f, s.claims = start, true, 3, 1, 1, 1, 1, 4
	if r.cut < 0 {
		s.f, s.linked = 0, false
	} else {
		s.wipes, s.dels, s.backs = 0, 0, 0
	}
	for i := range s.c {
		s.c[i].age, s.c[i].after = -1, none
	}
	first := &node{st: s}
	seen := map[state]bool{s: true}
	queue := []*node{first}
	for len(queue) > 0 && len(seen) < most {
		n := queue[0]
		queue = queue[1:]
		var bad *node
		each(r, n.st, func(what string, next state, ok bool) {
			if bad != nil {
				return
			}
			m := &node{next, step{n, what}}
			if !ok {
				bad = m
				return
			}
			if !seen[next] {
				seen[next] = true
				queue = append(queue, m)
			}
		})
		if bad != nil {
			for m := bad; m.via.from != nil; m = m.via.from {
				p := m.st.s[m.st.primary]
				trace = append(trace, fmt.Sprintf("%-34s clock %d, highest %d, primary %d mark %d",
					m.via.what, m.st.clock, m.st.high, m.st.primary, p.mark))
			}
			slices.Reverse(trace)
			return trace
		}
	}
	return nil
}

// pass lets the time of one request pass.
func (s *state) pass() {
	s.clock++
	for i := range s.c {
		s.c[i].reckoned++
	}
}

// mayNative reports whether a client may claim natively now.
func (r play) mayNative(c client) bool {
	switch {
	case r.near < 0:
		return false
	case r.counted && !c.lifted, r.quiet && c.quiet > 0:
		return false
	case r.window > 0 && (c.age < 0 || int(c.age) > r.window):
		return false
	case r.near > 0 && c.age < 0:
		return false
	}
	return true
}

func (r play) accepts(c client) bool {
	switch {
	case r.counted && (c.half < floor || c.old):
		return false
	case r.quiet && c.quiet > 0:
		return false
	case r.window > 0 && (c.half < floor || int(c.age) > r.window):
		return false
	case r.near > 0:
		return near(int64(c.half), int64(c.reckoned), int64(2*r.near)) // ticks
	}
	return c.half >= floor
}

func each(r play, s state, yield func(string, state, bool)) {
	if s.ticks > 0 {
		n := s
		n.ticks--
		n.clock += 2
		if !n.linked && r.cut >= 0 {
			n.down++
		}
		for i := range n.c {
			n.c[i].reckoned += 2
			if n.c[i].age >= 0 {
				n.c[i].age = min(n.c[i].age+1, 9)
			}
			if n.c[i].at == n.primary && n.c[i].quiet > 0 {
				n.c[i].quiet--
			}
		}
		yield("tick", n, true)
	}
	split := s.primary == 1 && (s.c[0].at == 0 || s.c[1].at == 0)
	given := s.high
	for _, c := range s.c {
		given = max(given, c.half)
	}
	if s.backs > 0 && s.s[s.primary].mark >= given && !split { // else neither survives
		n := s
		n.backs--
		n.clock -= 5
		yield("clock set back", n, true)
	}
	survives := s.clock > given // the server's clock does: what it shows is above all tokens
	if s.wipes > 0 && survives {
		n := s
		n.wipes--
		n.s[n.primary] = server{}
		if n.linked {
			n.s[1-n.primary] = server{}
		}
		yield("FLUSHALL, or the mark expires", n, true)
	}
	if s.dels > 0 && s.s[s.primary].lease != 0 {
		n := s
		n.dels--
		n.s[n.primary].lease = 0
		yield("lease deleted", n, true)
	}
	if s.linked && s.s[0] != s.s[1] {
		n := s
		n.s[1-n.primary] = n.s[n.primary]
		yield("replicate", n, true)
	}
	if s.f > 0 && s.linked {
		n := s
		n.linked = false
		yield("the link is cut", n, true)
	}
	if !s.linked && s.f > 0 && int(s.down) >= r.cut && survives {
		n := s
		n.f--
		n.primary = 1
		yield("the replica is promoted", n, true)
		if r.survives {
			for i := range n.c {
				n.c[i].at = 1
			}
			yield("promoted, clients follow at once", n, true)
		}
	}
	for i := range s.c {
		actions(r, s, i, yield)
	}
}

func actions(r play, s state, i int, yield func(string, state, bool)) {
	name := fmt.Sprintf("%c: ", 'A'+i)
	c := s.c[i]
	if s.primary == 1 && c.at == 0 { // it turns to the new one, by a new connection
		if !c.old && !r.survives {
			n := s
			n.c[i].old, n.c[i].lifted, n.c[i].quiet = true, false, 2
			yield(name+"dials", n, true)
		}
		if c.old || r.survives {
			n := s
			n.c[i].at = 1
			if c.phase == 1 || c.phase == 2 {
				n.c[i].phase = 4 // the rest is lost with the connection; it asks again
			}
			yield(name+"switches", n, true)
		}
	}
	if s.primary == 1 && c.at == 0 && !r.alive {
		return // nothing answers
	}
	if s.primary == 0 && !s.linked && !r.alive && r.cut >= 0 {
		return
	}
	srv := &s.s[c.at]
	switch c.phase {
	case 0:
		if s.claims == 0 {
			break
		}
		if r.mayNative(c) {
			n := s
			n.claims--
			m := &n.c[i]
			if !c.old || c.at == 1 {
				m.old = false
			}
			m.before, m.after = n.high, none
			t := &n.s[c.at]
			if r.incrFirst {
				t.mark++
				m.half, m.phase = t.mark, 1
				yield(name+"INCR", n, true)
				break
			}
			if t.lease != 0 {
				break // refused: the mark rises, which harms nothing
			}
			t.lease = int8(i + 1)
			n.last = int8(i)
			n.answered = n.answered || c.at == 1
			m.phase = 1
			if r.atomic {
				t.mark++
				n.pass()
				m.half, m.phase = t.mark, 2
			}
			yield(name+"SET NX", n, true)
		}
		if srv.lease == 0 {
			script(r, s, i, 0, name+"script", yield)
			if !r.alive { // what is reserved is ahead of the clock by less than a fail-over
				script(r, s, i, 2, name+"script, reserves", yield)
			}
		}
	case 1:
		n := s
		m, t := &n.c[i], &n.s[c.at]
		if r.incrFirst {
			if t.lease != 0 {
				m.phase = 0
			} else {
				t.lease, m.before, m.phase, n.last = int8(i+1), n.high, 2, int8(i)
			}
			yield(name+"SET NX", n, true)
			break
		}
		t.mark++
		n.pass()
		m.half, m.phase = t.mark, 2
		yield(name+"INCR", n, true)
	case 2:
		if !r.accepts(c) {
			n := s
			n.c[i].phase = 4
			yield(name+"the answer does not count", n, true)
			break
		}
		n := s
		ok := give(&n, i, c.half)
		n.c[i].top = c.half
		yield(fmt.Sprintf("%shas %d", name, c.half), n, ok)
	case 3:
		n := s
		m, t := &n.c[i], &n.s[c.at]
		if t.lease == int8(i+1) {
			t.lease = 0
		}
		m.phase, m.token, m.top, m.before, m.after, m.half = 0, 0, 0, 0, none, 0
		yield(name+"release", n, true)
		if c.token < c.top && c.token < s.clock && srv.lease == int8(i+1) {
			n := s
			n.c[i].before, n.c[i].after = c.token, none // a late one is of the lease that was lost
			ok := give(&n, i, c.token+1)
			n.pass()
			yield(fmt.Sprintf("%shand-off %d", name, c.token+1), n, ok)
		}
	case 4:
		if srv.lease == 0 || srv.lease == int8(i+1) {
			script(r, s, i, 0, name+"script", yield)
		} else {
			n := s
			n.c[i].phase, n.c[i].half = 0, 0
			yield(name+"refused", n, true)
		}
	}
}

// script claims by the script, and has the answer at once.
func script(r play, s state, i int, reserve int8, what string, yield func(string, state, bool)) {
	n := s
	if s.c[i].phase == 0 {
		n.claims--
	}
	m, t := &n.c[i], &n.s[s.c[i].at]
	fresh := t.lease == 0
	t.lease = int8(i + 1)
	token := max(n.clock, t.mark+1)
	t.mark = token + reserve
	if fresh {
		m.before, m.after, n.last = n.high, none, int8(i)
	}
	m.lifted, m.age, m.reckoned = true, 0, token
	if m.at == 1 {
		m.old = false
	}
	ok := give(&n, i, token)
	n.c[i].top = token + reserve
	n.pass() // it takes time
	yield(fmt.Sprintf("%s: %d", what, token), n, ok)
}

// give notes that a client has the lock with a token, and reports whether
// tokens rise. Who came before and after is by when the lease was made.
func give(s *state, i int, token int8) bool {
	c := &s.c[i]
	c.phase, c.token, c.half = 3, token, 0
	if s.primary == 1 && c.at == 0 && s.answered {
		return true // two servers give leases: nothing orders them
	}
	s.answered = s.answered || c.at == 1
	ok := token > c.before && token < c.after
	for j := range s.c {
		o := &s.c[j]
		switch {
		case j == i || o.phase != 1 && o.phase != 2:
		case int(s.last) == j: // its lease was made after ours
			o.before = max(o.before, token)
		default:
			o.after = min(o.after, token)
		}
	}
	s.high = max(s.high, token)
	return ok
}
