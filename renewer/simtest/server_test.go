package simtest_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// server is a model of one: keys with a TTL by its own clock, in whole milliseconds; a counter of tokens for each name; and
// comparisons of owner tokens. It keeps a book of every tenure.
type server struct {
	clock  clock
	faults faults
	report func(kind, string, ...any)
	count  func(event)
	free   func(name string) // tells those who watch it

	mu      sync.Mutex
	keys    map[string]*tenure
	fences  map[string]int64
	book    map[string][]*tenure
	renewed map[string]int          // how often, by name
	closed  map[int][]time.Duration // when the keepers of a process were shut down
}

// request is one to the server, as it travels.
type request struct {
	process  int
	sent     time.Duration
	claims   []renewer.Claim // of an Acquire
	holds    []renewer.Hold  // of a Renew or a Release
	renew    bool
	answered atomic.Bool // its caller has had a reply to it
	left     atomic.Bool // its caller has gone without one
	done     bool        // the server has had it before; guarded by its mutex
}

func (r *request) String() string {
	var b strings.Builder
	for _, c := range r.claims {
		fmt.Fprintf(&b, "acquire %q for %.6s, TTL %v, %d more tokens ", c.Name, c.Owner, c.TTL, c.Reserve)
	}
	for _, h := range r.holds {
		fmt.Fprintf(&b, "%s %q of %.6s, TTL %v, keep %v ", map[bool]string{true: "renew", false: "release"}[r.renew], h.Name, h.Owner, h.TTL, h.Keep)
	}
	return b.String()
}

// reply is the server's, of which one half is filled.
type reply struct {
	grants  []renewer.Grant
	answers []renewer.Answer
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

func newServer(c clock, f faults, report func(kind, string, ...any), count func(event)) *server {
	return &server{
		clock: c, faults: f, report: report, count: count, free: func(string) {},
		keys: map[string]*tenure{}, fences: map[string]int64{}, book: map[string][]*tenure{}, renewed: map[string]int{}, closed: map[int][]time.Duration{},
	}
}

// carryOut does what is asked at an instant, all of it at once.
func (s *server) carryOut(r *request, now time.Duration) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	var p reply
	for i := range r.claims {
		p.grants = append(p.grants, s.acquire(r, &r.claims[i], now))
	}
	for i := range r.holds {
		p.answers = append(p.answers, s.hold(r, &r.holds[i], now))
	}
	r.done = true
	return p
}

// shown is the clock in whole milliseconds, by which keys expire.
func (s *server) shown(now time.Duration) time.Duration {
	return s.clock.at(now).Truncate(time.Millisecond)
}

// live is who has a name; nil for nobody.
func (s *server) live(name string, now time.Duration) *tenure {
	t := s.keys[name]
	if t != nil && s.shown(now) >= t.until {
		t.end(s.clock.when(t.until), false)
		s.count(leftToLapse)
		delete(s.keys, name)
		return nil
	}
	return t
}

func (s *server) acquire(r *request, c *renewer.Claim, now time.Duration) renewer.Grant {
	if c.TTL < time.Millisecond || c.TTL%time.Millisecond != 0 || len(c.Owner) != renewer.OwnerLen || c.Reserve < 0 {
		s.report(contract, "the claim %+v", *c)
	}
	until := s.shown(now) + c.TTL
	t := s.live(c.Name, now)
	switch {
	case t == nil:
		return s.grant(r, c, now)
	case t.owner != c.Owner || s.faults.refusesItsOwner:
		return renewer.Grant{Status: renewer.Taken, Holder: renewer.Holder{Node: fmt.Sprint(t.process)}, TTL: t.until - s.shown(now)}
	case s.faults.grantsAnew:
		t.end(now, true)
		return s.grant(r, c, now)
	}
	t.until = max(t.until, until)
	return renewer.Grant{Status: renewer.Mine, Fence: t.low}
}

// grant begins a tenure.
func (s *server) grant(r *request, c *renewer.Claim, now time.Duration) renewer.Grant {
	fence := max(s.fences[c.Name]+1, int64(s.clock.at(now)/time.Microsecond))
	if s.faults.forgetsReserved {
		fence = s.fences[c.Name] + 1
	}
	t := &tenure{
		name: c.Name, owner: c.Owner, process: r.process, low: fence, high: fence + int64(c.Reserve), ttl: c.TTL,
		from: now, until: s.shown(now) + c.TTL,
	}
	s.count(granted)
	if r.done {
		s.count(copyActed)
		t.copied = r
	}
	s.fences[c.Name] = t.high
	if s.faults.forgetsReserved {
		s.fences[c.Name] = t.low
	}
	s.keys[c.Name] = t
	s.book[c.Name] = append(s.book[c.Name], t)
	return renewer.Grant{Status: renewer.Mine, Fence: fence, Reserved: c.Reserve}
}

func (s *server) hold(r *request, h *renewer.Hold, now time.Duration) renewer.Answer {
	t := s.live(h.Name, now)
	switch {
	case t == nil:
		return renewer.Answer{Status: renewer.Gone}
	case t.owner != h.Owner && (r.renew || !s.faults.freesAnybodys):
		return renewer.Answer{Status: renewer.Taken}
	case r.renew:
		s.renew(t, h, now)
	case h.Keep > 0:
		t.until, t.kept = s.shown(now)+h.Keep, true
		s.free(h.Name)
	default:
		t.end(now, true)
		delete(s.keys, h.Name)
		s.free(h.Name)
	}
	return renewer.Answer{Status: renewer.Mine}
}

func (s *server) renew(t *tenure, h *renewer.Hold, now time.Duration) {
	if h.TTL < time.Millisecond || h.TTL%time.Millisecond != 0 {
		s.report(contract, "the renewal %+v", *h)
	}
	s.renewed[h.Name]++
	s.count(renewed)
	until := s.shown(now) + h.TTL
	if s.faults.renewalShortens {
		t.until = until
		return
	}
	t.until = max(t.until, until)
}

// tenureOf is the tenure that a fencing token is from, nil if there is none. Under s.mu.
func (s *server) tenureOf(name string, fence int64) *tenure {
	for _, t := range slices.Backward(s.book[name]) {
		if t.low <= fence && fence <= t.high {
			return t
		}
	}
	return nil
}

// lapse tells until when a fencing token's owner has the name, if it is neither renewed nor released; 0 if it has not.
func (s *server) lapse(name string, fence int64, now time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live(name, now)
	t := s.tenureOf(name, fence)
	if t == nil || t.over {
		return 0
	}
	return s.clock.when(t.until)
}

// renewals tells how often a name was renewed.
func (s *server) renewals(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.renewed[name]
}

// held is a copy of every tenure that is not over.
func (s *server) held(now time.Duration) []tenure {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []tenure
	for name := range s.book {
		if t := s.live(name, now); t != nil {
			all = append(all, *t)
		}
	}
	return all
}

// close notes that a process ends its keeper, which may leave keys behind if it is in a hurry.
func (s *server) close(process int, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed[process] = append(s.closed[process], now)
}

// leftByClosed tells whether the keeper that a tenure was for was shut down before it could free it. Under s.mu.
func (s *server) leftByClosed(t *tenure, settle time.Duration) bool {
	return slices.ContainsFunc(s.closed[t.process], func(at time.Duration) bool { return t.from-settle <= at && at <= t.to })
}

// handed tells whether a lease came from hand to hand inside its process.
func (s *server) handed(key lot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenureOf(key.name, key.fence)
	return t != nil && key.fence > t.low
}
