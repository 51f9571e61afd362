package simtest_test

import (
	"sync/atomic"
	"time"
)

// watch is one subscription.
type watch struct {
	name    string
	wake    func(error)
	stopped atomic.Bool
}

func (w *watch) call(err error) {
	if !w.stopped.Load() {
		w.wake(err)
	}
}

// Watch wakes once when it is set up, and later on each release of which the message gets through.
func (l *link) Watch(name string, wake func(error)) (stop func()) {
	w := &watch{name: name, wake: wake}
	l.mu.Lock()
	l.watch[w] = struct{}{}
	l.mu.Unlock()
	time.AfterFunc(l.fate("watch", name).out, func() {
		if l.open() {
			w.call(nil)
			return
		}
		w.call(errReset)
	})
	return func() {
		w.stopped.Store(true)
		l.mu.Lock()
		delete(l.watch, w)
		l.mu.Unlock()
	}
}

// publish sends the message that a name is free, which may be lost, or doubled.
func (l *link) publish(name string) {
	f := l.fate("publish", name)
	if f.lost || !l.open() {
		l.w.tally.count(wakeLost)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.watch {
		if w.name != name {
			continue
		}
		time.AfterFunc(f.out, func() { w.call(nil) })
		if f.copied > 0 {
			time.AfterFunc(f.out+f.copied, func() { w.call(nil) })
		}
	}
}
