package simtest_test

import (
	"sort"
	"sync"
	"time"
)

// spells are the stretches of time for which something is out of order:
// a link that lets nothing through, a server that is frozen. They follow
// from the dice alone, however often and whenever somebody looks.
type spells struct {
	dice         dice
	every, least time.Duration // one begins every so often on average, and lasts from least
	most         time.Duration // to most; 0: there are none

	mu   sync.Mutex
	list []spell // in order
}

type spell struct{ from, to time.Duration }

// end is when the spell ends that now is in; 0 outside.
func (s *spells) end(now time.Duration) time.Duration {
	if s.most == 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.list) == 0 || s.list[len(s.list)-1].to <= now {
		var last time.Duration
		if n := len(s.list); n > 0 {
			last = s.list[n-1].to
		}
		from := last + s.dice.between(0, 2*s.every)
		s.list = append(s.list, spell{from, from + s.dice.between(s.least, s.most)})
	}
	i := sort.Search(len(s.list), func(i int) bool { return s.list[i].to > now })
	if s.list[i].from <= now {
		return s.list[i].to
	}
	return 0
}
