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
		slices.SortFunc(all, func(a, b *belief) int {
			return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.fence, b.fence))
		})
		g.apart(all)
		for _, b := range all {
			g.inside(s, b)
			g.notice(s, b, p.margin())
		}
	}
	for _, book := range s.book {
		for i, t := range book {
			if i > 0 && t.low <= book[i-1].high {
				g.violate(tokens, "the server granted %v after %v", t, book[i-1])
			}
			if p.weather == drizzle && t.over && !t.released && !t.mayLapse() &&
				t.ttl == p.cfg.TTL && !s.leftByClosed(t, p.settle) {
				g.violate(lapsed, "%v", t)
			}
		}
	}
}

// apart looks whether beliefs in one name overlap, and whether tokens rise in their order.
func (g *ledger) apart(all []*belief) {
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		if !a.over || b.from < a.to {
			g.violate(twoBelieve, "%v, and %v", a, b)
		}
		if b.fence <= a.fence {
			g.violate(tokens, "%v, and then %v", a, b)
		}
	}
}

// notice looks whether the server kept a name for as long as an operation
// that was told of its loss was to have time to stop. Under s.mu.
func (g *ledger) notice(s *server, b *belief, margin time.Duration) {
	t := s.tenureOf(b.name, b.fence)
	if !b.noticed || t == nil || !t.over {
		return
	}
	if end := min(b.ran, b.to+margin); t.to < end {
		g.violate(lateNotice, "%v, and its operation returned at %v, but %v", b, b.ran, t)
	}
}

// inside looks whether a belief lies inside the tenure of its token. Under s.mu.
func (g *ledger) inside(s *server, b *belief) {
	t := s.tenureOf(b.name, b.fence)
	if t == nil {
		g.violate(outside, "%v: the server never granted that", b)
		return
	}
	if b.from < t.from || t.over && (b.to > t.to || !b.over) {
		g.violate(outside, "%v, but %v", b, t)
	}
}
