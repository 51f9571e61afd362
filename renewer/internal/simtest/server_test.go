package simtest_test

import (
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// server is a model of one: keys with a TTL by its own clock, in whole
// milliseconds; fencing tokens by a mark; and comparisons of owner tokens. It
// keeps a book of every tenure.
type server struct {
	faults faults
	report func(kind, string, ...any)
	count  func(event)
	turn   time.Duration // of the first in line; 0: there are no lines
	// tell sends a message to the inbox of a place, which hears reports to be
	// heard. tellAll tells all who wait without a place. later has a process do
	// something after a time.
	tell      func(p place, m message)
	hears     func(p place) bool
	processOf func(p place) int
	tellAll   func(name string)
	later     func(p place, after time.Duration, do func(now time.Duration))

	mu    sync.Mutex
	clock clock
	keys  map[string]*tenure
	slots map[string][]*tenure // of limits
	// slotTurns are the places for which slots are kept.
	slotTurns map[string][]turn
	tokens    fenceTokens
	lines     map[string][]rank
	came      map[place]time.Duration // since when each stands in its line
	// era is how often data was lost that the clock could not make up for.
	era       int
	forgotten int64 // the highest token that may have been granted in this era and is lost
	book      map[string][]*tenure
	renewed   map[string]int          // how often, by name
	closed    map[int][]time.Duration // when the keepers of a process were shut down
	killed    map[int]time.Duration   // when a process was, by its inbox
	back      time.Duration           // by how much the clock was set back
}

func newServer(c clock, f faults, report func(kind, string, ...any), count func(event)) *server {
	return &server{
		clock: c, faults: f, report: report, count: count,
		tell: func(place, message) {}, hears: func(place) bool { return true },
		processOf: func(place) int { return 0 }, tellAll: func(string) {},
		later: func(place, time.Duration, func(time.Duration)) {},
		keys:  map[string]*tenure{},
		slots: map[string][]*tenure{}, slotTurns: map[string][]turn{},
		tokens: fenceTokens{faults: f},
		lines:  map[string][]rank{}, came: map[place]time.Duration{},
		book: map[string][]*tenure{}, renewed: map[string]int{}, closed: map[int][]time.Duration{},
		killed: map[int]time.Duration{},
	}
}

// carryOut does what is asked at an instant, all of it at once.
func (s *server) carryOut(r *request, now time.Duration) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	var p reply
	for i := range r.claims {
		from := rank{place{r.inbox, r.claims[i].Place}, r.since[i], r.first[i], 0, nil}
		if i > 0 && p.grants[i-1].Status == store.StatusHeld &&
			r.claims[i-1].Place == r.claims[i].Place {
			from.since = 0 // the rank that it had is used up
		}
		p.grants = append(p.grants, s.acquire(r, &r.claims[i], from, now))
		p.since = append(p.since, s.came[from.place])
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
		if t.carried {
			s.count(turnsLapsed)
		}
		t.end(s.clock.when(t.until), false)
		s.count(leftToLapse)
		delete(s.keys, name)
		// no release has put what was used into the mark: the clock alone bars
		// it
		if t.high > t.low {
			s.forgotten = max(s.forgotten, t.high)
			s.beginEra(now)
		}
		return nil
	}
	return t
}

func (s *server) hold(r *request, h *store.Hold, now time.Duration) store.Answer {
	if h.Limit {
		return s.holdSlot(r, h, now)
	}
	if h.Place != 0 && !r.renew {
		s.leave(h.Name, place{r.inbox, h.Place})
	}
	t := s.live(h.Name, now)
	switch {
	case t == nil: // lapsed: nobody has told those who wait
		if r.renew {
			s.wake(h.Name)
		} else {
			s.pass(r, h.Name, now)
		}
		return store.Answer{Status: store.StatusGone}
	case t.owner != h.Owner && (r.renew || !s.faults.freesAnybodys):
		return store.Answer{Status: store.StatusTaken}
	case r.renew:
		s.renew(t, h, now)
		return store.Answer{Status: store.StatusHeld}
	}
	switch {
	case h.Keep > 0:
		t.until, t.kept = s.shown(now)+h.Keep, true
		s.wake(h.Name)
	default:
		t.end(now, true)
		delete(s.keys, h.Name)
		if t.waited {
			s.pass(r, h.Name, now)
		}
	}
	return store.Answer{Status: store.StatusHeld}
}

func (s *server) renew(t *tenure, h *store.Hold, now time.Duration) {
	if h.TTL < time.Millisecond || h.TTL%time.Millisecond != 0 {
		s.report(contract, "the renewal %+v", *h)
	}
	s.renewed[h.Name]++
	t.carried = false
	s.count(renewed)
	until := s.shown(now) + h.TTL
	if s.faults.renewalShortens {
		t.until = until
		return
	}
	t.until = max(t.until, until)
}
