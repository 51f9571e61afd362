package lockmw

import (
	"sync"

	"github.com/lockbeat/lockbeat/renewer"
)

// waitingAlone are those of several that callers wait for alone, since their patience was over. A
// caller that comes with other locks in hand does not begin to be patient then: a crowd of callers
// would keep the others locked in turn.
var waitingAlone = loneWaiters{waiting: make(map[loneName]int)}

type loneWaiters struct {
	mu      sync.Mutex
	waiting map[loneName]int // callers
}

type loneName struct {
	keeper *renewer.Keeper
	name   string
}

// enter counts a caller in who waits for one lock alone. The function that it returns counts it
// out.
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

// has reports whether a caller waits for a lock alone.
func (s *loneWaiters) has(k *renewer.Keeper, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting[loneName{k, name}] > 0
}
