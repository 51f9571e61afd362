package memory

import (
	"slices"
	"sync/atomic"
)

// watcher is one call of Watch.
type watcher struct {
	wake    func(error)
	stopped atomic.Bool
}

// call wakes, unless the watch was stopped.
func (w *watcher) call() {
	if !w.stopped.Load() {
		w.wake(nil)
	}
}

// Watch calls wake(nil) once it is set up, in a goroutine that ends with that
// call, and then on each release of name, in the goroutine that releases: see
// [store.Store]. It never calls wake with an error. stop may be called from
// wake, and more than once; a call of wake under way then goes on.
func (s *Store) Watch(name string, wake func(error)) (stop func()) {
	w := &watcher{wake: wake}
	s.mu.Lock()
	if s.watchers == nil {
		s.watchers = make(map[string][]*watcher)
	}
	s.watchers[name] = append(s.watchers[name], w)
	s.mu.Unlock()
	// Not in this goroutine: the caller may hold a lock that wake needs, and has no stop yet.
	go w.call()
	return func() {
		w.stopped.Store(true)
		s.mu.Lock()
		defer s.mu.Unlock()
		rest := slices.DeleteFunc(s.watchers[name], func(other *watcher) bool { return other == w })
		if len(rest) == 0 {
			delete(s.watchers, name)
			return
		}
		s.watchers[name] = rest
	}
}
