package simtest_test

import "time"

// want is that callers of one process want a name.
type want struct {
	link *link
	name string
}

// waiting is for how long they have wanted it, without a pause and without
// having it.
type waiting struct {
	callers int
	since   time.Duration
}

// enter notes that a caller begins to wait.
func (g *ledger) enter(key want, now time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wants[key] == nil {
		g.wants[key] = &waiting{since: now}
	}
	g.wants[key].callers++
}

// leave notes that a caller waits no longer, and looks whether its
// process had to wait for too long.
func (g *ledger) leave(w *world, key want, got bool) {
	now := w.now()
	g.mu.Lock()
	o := g.wants[key]
	waited := now - o.since
	if got {
		o.since = now
	}
	o.callers--
	if o.callers == 0 {
		delete(g.wants, key)
	}
	g.longest = max(g.longest, waited)
	g.mu.Unlock()
	if w.plan.mostWait > 0 && waited > w.plan.mostWait && !key.link.dead.Load() {
		g.violate(starved, "process %d wanted %q for %v", key.link.process, key.name, waited)
	}
}
