package lockmw

import (
	"sync"

	"github.com/lockbeat/lockbeat/renewer"
)

// slowNames are those of several that callers wait for alone, since their patience was over. A
// caller that comes with other locks in hand does not begin to be patient then: a crowd of callers
// would keep the others locked in turn.
var slowNames = slow{waiting: make(map[slowName]int)}

type slow struct {
	mu      sync.Mutex
	waiting map[slowName]int // callers
}

type slowName struct {
	keeper *renewer.Keeper
	name   string
}

// enter counts a caller in who waits for one lock alone. The function that it returns counts it
// out.
func (s *slow) enter(k *renewer.Keeper, name string) (leave func()) {
	key := slowName{k, name}
	s.mu.Lock()
	s.waiting[key]++
	s.mu.Unlock()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting[key]--
		if s.waiting[key] == 0 {
			delete(s.waiting, key)
		}
	})
}

// has reports whether a caller waits for a lock alone.
func (s *slow) has(k *renewer.Keeper, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting[slowName{k, name}] > 0
}
