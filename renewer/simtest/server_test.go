package simtest_test

import (
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// server is a model of one: keys with a TTL by its own clock, in whole milliseconds; a counter
// of tokens for each name; and comparisons of owner tokens. It keeps a book of every tenure.
type server struct {
	clock  clock
	faults faults
	report func(kind, string, ...any)
	count  func(event)
	// for which the first in line has a name that is freed; 0: there are no lines
	turn time.Duration
	free func(name string) // tells those who watch it

	mu      sync.Mutex
	keys    map[string]*tenure
	fences  map[string]int64
	book    map[string][]*tenure
	lines   map[string][]place
	renewed map[string]int          // how often, by name
	closed  map[int][]time.Duration // when the keepers of a process were shut down
}

func newServer(c clock, f faults, report func(kind, string, ...any), count func(event)) *server {
	return &server{
		clock: c, faults: f, report: report, count: count, free: func(string) {},
		keys: map[string]*tenure{}, fences: map[string]int64{}, book: map[string][]*tenure{},
		lines: map[string][]place{}, renewed: map[string]int{}, closed: map[int][]time.Duration{},
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

func (s *server) hold(r *request, h *renewer.Hold, now time.Duration) renewer.Answer {
	t := s.live(h.Name, now)
	if !r.renew {
		s.leave(h.Name, h.Owner)
	}
	switch {
	case t == nil: // lapsed: nobody has told those who wait
		if !r.renew {
			s.pass(h.Name, now)
		}
		s.free(h.Name)
		return renewer.Answer{Status: renewer.StatusGone}
	case t.owner != h.Owner && (r.renew || !s.faults.freesAnybodys):
		return renewer.Answer{Status: renewer.StatusTaken}
	case r.renew:
		s.renew(t, h, now)
		return renewer.Answer{Status: renewer.StatusHeld}
	}
	s.giveBack(t, h)
	switch {
	case h.Keep > 0:
		t.until, t.kept = s.shown(now)+h.Keep, true
		s.free(h.Name)
	default:
		t.end(now, true)
		delete(s.keys, h.Name)
		s.pass(h.Name, now)
		s.free(h.Name)
	}
	return renewer.Answer{Status: renewer.StatusHeld}
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
