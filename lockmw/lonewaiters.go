package lockmw

import (
	"sync"

	"github.com/lockbeat/lockbeat/renewer"
)

// waitingAlone counts the callers of [Keys] whose patience is over, and that wait for one lock
// alone, by that lock. A caller that has other locks in hand does not wait for such a lock at
// all: else a crowd of callers, one after the other, would keep those other locks from everyone.
var waitingAlone = loneWaiters{waiting: make(map[loneName]int)}

type loneWaiters struct {
	mu      sync.Mutex
	waiting map[loneName]int // callers
}

type loneName struct {
	keeper *renewer.Keeper
	name   string
}

// enter counts in a caller that waits for one lock alone; leave counts it out.
func (s *loneWaiters) enter(k *renewer.Keeper, name string) (leave func()) {
	key := loneName{k, name}
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

// has reports whether any caller waits for a lock alone.
func (s *loneWaiters) has(k *renewer.Keeper, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting[loneName{k, name}] > 0
}
