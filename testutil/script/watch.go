package script

import (
	"slices"
	"sync/atomic"
)

// watcher is one call of Watch.
type watcher struct {
	name    string
	wake    func(error)
	stopped atomic.Bool
}

func (w *watcher) call(err error) {
	if !w.stopped.Load() {
		w.wake(err)
	}
}

// Watch calls wake(nil) once it is set up, in a goroutine that ends with
// that call, then on each release of name, and by Wake: see [store.Store].
func (s *Store) Watch(name string, _ bool, wake func(error)) (stop func()) {
	w := &watcher{name: name, wake: wake}
	s.mu.Lock()
	s.watchers = append(s.watchers, w)
	muted := s.muted
	s.mu.Unlock()
	if !muted {
		go w.call(nil)
	}
	return func() {
		w.stopped.Store(true)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watchers = slices.DeleteFunc(s.watchers, func(other *watcher) bool { return other == w })
	}
}

// Wake calls the wake functions of those who watch name now, with
// err, and returns how many it called. It works while muted.
func (s *Store) Wake(name string, err error) int {
	watchers := s.watching(name)
	for _, w := range watchers {
		w.call(err)
	}
	return len(watchers)
}

// Mute drops every wake-up of the store's own while it is on, as if each
// message were lost: those on a release, and the one when a watch is set up.
func (s *Store) Mute(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.muted = on
}

// Watchers returns how many watch name.
func (s *Store) Watchers(name string) int { return len(s.watching(name)) }

func (s *Store) watching(name string) []*watcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*watcher
	for _, w := range s.watchers {
		if w.name == name {
			found = append(found, w)
		}
	}
	return found
}

// freed wakes those who watch any of names.
func (s *Store) freed(names []string) {
	s.mu.Lock()
	muted := s.muted
	s.mu.Unlock()
	if muted {
		return
	}
	for _, name := range names {
		s.Wake(name, nil)
	}
}
