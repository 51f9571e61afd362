package memory

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lockbeat/lockbeat/internal/contract"
)

// listener is one call of Watch or of OnBreak.
type listener[A any] struct {
	tell    func(A)
	stopped atomic.Bool
}

// call tells, unless the listener was stopped.
func (l *listener[A]) call(what A) {
	if !l.stopped.Load() {
		l.tell(what)
	}
}

// listeners are those of each key. What they are in is guarded by mu of the
// Store.
type listeners[K comparable, A any] struct{ of map[K][]*listener[A] }

// add adds one. stop may be called more than once.
func (ls *listeners[K, A]) add(
	mu *sync.Mutex, key K, tell func(A),
) (l *listener[A], stop func()) {
	l = &listener[A]{tell: tell}
	mu.Lock()
	defer mu.Unlock()
	if ls.of == nil {
		ls.of = make(map[K][]*listener[A])
	}
	ls.of[key] = append(ls.of[key], l)
	return l, func() {
		l.stopped.Store(true)
		mu.Lock()
		defer mu.Unlock()
		rest := slices.DeleteFunc(ls.of[key], func(other *listener[A]) bool { return other == l })
		if len(rest) == 0 {
			delete(ls.of, key)
			return
		}
		ls.of[key] = rest
	}
}

// Watch calls wake(nil) once it is set up, in a goroutine that ends with that
// call, and then on each release of name, in the goroutine that releases: see
// [store.Store]. It never calls wake with an error. stop may be called from
// wake, and more than once; a call of wake under way then goes on.
func (s *engine) Watch(name string, limit bool, wake func(error)) (stop func()) {
	w, stop := s.watchers.add(&s.mu, contract.Name{Text: name, Limit: limit}, wake)
	// Not in this goroutine: the caller may hold a lock that wake needs, and
	// has no stop yet.
	go w.call(nil)
	return stop
}
