package simtest_test

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// guardingLink is a link on which the server tells of names that may have changed, rightly or not.
type guardingLink struct{ *link }

var _ renewer.Guarding = guardingLink{}

// Guard has the keeper told of what is freed, by anybody, and now and then that anything may have changed.
func (l guardingLink) Guard(_ context.Context, changed func(name string)) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.guards++
	id := l.guards
	l.guard[id] = changed
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.guard, id)
	}
}

// Guards tells whether that is so at the moment: it comes and goes with the link.
func (l guardingLink) Guards() bool { return l.open() }

// alarm tells the keeper that a name has changed, after d. It comes too often, too seldom, and too late, until the weather is calm. Under mu.
func (l *link) alarm(name string, d time.Duration) {
	if d%5 == 0 {
		name = ""
	}
	for id := range l.guard {
		l.w.tally.count(alarmed)
		time.AfterFunc(d, func() {
			l.mu.Lock()
			changed := l.guard[id]
			l.mu.Unlock()
			if changed != nil && !l.w.calm.Load() {
				changed(name)
			}
		})
	}
}
