package simtest_test

import (
	"cmp"
	"slices"
	"time"
)

// inspect compares what was believed with the truth, when all is over.
func (g *ledger) inspect(s *server, now time.Duration, p plan) {
	byName := map[string][]*belief{}
	g.mu.Lock()
	for _, b := range g.beliefs {
		byName[b.name] = append(byName[b.name], b)
	}
	g.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, all := range byName {
		s.live(name, now)
		s.liveSlots(name, now)
		slices.SortFunc(all, func(a, b *belief) int {
			return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.fence, b.fence))
		})
		if p.limits(name) {
			g.atMost(s, all, p.limit)
		} else {
			g.apart(s, all)
		}
		for _, b := range all {
			g.inside(s, b)
			g.notice(s, b, p.margin())
		}
	}
	for _, book := range s.book {
		for i, t := range book {
			if i > 0 && t.era == book[i-1].era && t.low <= book[i-1].last() {
				g.violate(tokens, "the server granted %v after %v", t, book[i-1])
			}
			if p.weather == drizzle && t.over && !t.released && !t.mayLapse() &&
				t.ttl == p.cfg.TTL && !s.leftByClosed(t, p.settle) && !s.leftByKilled(t) {
				g.violate(lapsed, "%v", t)
			}
		}
	}
}

// apart looks whether beliefs in one name overlap, and whether tokens rise in
// their order. Those in what the server has lost may overlap, and are not
// compared with those before. Under s.mu.
func (g *ledger) apart(s *server, all []*belief) {
	var highest *belief
	era := 0
	for i, b := range all {
		t := s.tenureOf(b)
		lost := t != nil && t.disturbed
		if i > 0 {
			a := all[i-1]
			was := s.tenureOf(a)
			if (!a.over || b.from < a.to) && !lost && (was == nil || !was.disturbed) {
				g.violate(twoBelieve, "%v, and %v", a, b)
			}
		}
		if t != nil && t.era != era {
			era, highest = t.era, nil
		}
		if highest != nil && b.fence <= highest.fence &&
			(!lost || !t.over || b.from < t.to) {
			g.violate(tokens, "%v, and then %v", highest, b)
		}
		if highest == nil || b.fence > highest.fence {
			highest = b
		}
	}
}

// notice looks whether the server kept a name for as long as an operation
// that was told of its loss was to have time to stop. Under s.mu.
func (g *ledger) notice(s *server, b *belief, margin time.Duration) {
	t := s.tenureOf(b)
	if !b.noticed || t == nil || !t.over || t.disturbed {
		return
	}
	if end := min(b.ran, b.to+margin); t.to < end {
		g.violate(lateNotice, "%v, and its operation returned at %v, but %v", b, b.ran, t)
	}
}

// inside looks whether a belief lies inside the tenure of its token. Under
// s.mu.
func (g *ledger) inside(s *server, b *belief) {
	t := s.tenureOf(b)
	if t == nil {
		g.violate(outside, "%v: the server never granted that", b)
		return
	}
	if t.disturbed {
		return
	}
	if b.from < t.from || t.over && (b.to > t.to || !b.over) {
		g.violate(outside, "%v, but %v", b, t)
	}
}
