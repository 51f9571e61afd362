package simtest_test

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
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

// Watch wakes once when it is set up, and later on each message that gets
// through: on those to the places of this link, or, while it has none for the
// name, on those that are for all. The first one opens the inbox, and has all
// who wait ask.
func (l *link) Watch(name string, _ bool, wake func(error)) (stop func()) {
	w := &watch{name: name, wake: wake}
	l.mu.Lock()
	l.watch[w] = struct{}{}
	l.mu.Unlock()
	time.AfterFunc(l.fate("watch", name).out, func() {
		if !l.open() {
			w.call(errReset)
			return
		}
		if !l.listen() {
			w.call(nil)
		}
	})
	return func() {
		w.stopped.Store(true)
		l.mu.Lock()
		delete(l.watch, w)
		l.mu.Unlock()
	}
}

// listen opens the inbox, and reports whether it was closed.
func (l *link) listen() bool {
	l.mu.Lock()
	opened := !l.listens
	l.listens = true
	l.mu.Unlock()
	if opened {
		l.wakeAll(nil)
	}
	return opened
}

// reset closes the inbox for a while, as the connection has gone.
func (l *link) reset(d time.Duration) {
	l.mu.Lock()
	listened := l.listens
	l.listens = false
	l.mu.Unlock()
	l.wakeAll(errReset)
	if listened {
		time.AfterFunc(d, func() { l.listen() })
	}
}

// hears reports whether the server takes the process to be alive.
func (l *link) hears() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listens && (!l.dead.Load() || l.w.now() < time.Duration(l.heard.Load()))
}

// wakeAll tells all watches.
func (l *link) wakeAll(err error) {
	l.mu.Lock()
	all := make([]*watch, 0, len(l.watch))
	for w := range l.watch {
		all = append(all, w)
	}
	l.mu.Unlock()
	for _, w := range all {
		w.call(err)
	}
}

// present notes the places of claims, and tells since when they stand in line.
// As long as the inbox is not open, none is new: one that stands there is its
// owner's, who takes it out when it asks.
func (l *link) present(r *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.since, r.first = make([]time.Duration, len(r.claims)), slices.Clone(r.claims)
	for i := range r.claims {
		c := &r.claims[i]
		if c.Place == 0 {
			continue
		}
		p := l.places[c.Place]
		if p == nil && !l.listens || l.w.plan.turn == 0 {
			c.Place = 0
			continue
		}
		if p == nil {
			p = &placeOf{name: c.Name, first: *c}
			l.places[c.Place] = p
		}
		r.since[i], r.first[i] = p.since, p.first
	}
}

// told is what a message has told of the first claim from the place of a claim;
// nil if none has.
func (l *link) told(c *store.Claim) *store.Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.places[c.Place]
	if p == nil || c.Limit != 0 {
		return nil
	}
	g := p.given
	if g == nil && l.w.plan.faults.toldTwice {
		g = l.last
	}
	if g == nil || c.TTL != p.first.TTL {
		return nil
	}
	delete(l.places, c.Place)
	l.last = g
	l.w.tally.count(toldOfGrant)
	l.w.trace.note(l.w.now(), "process %d is told of place %d: %v", l.process, c.Place, g.Fence)
	return g
}

// settle notes what became of the places of claims.
func (l *link) settle(r *request, p reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range r.claims {
		n := r.claims[i].Place
		switch o := l.places[n]; {
		case o == nil, i+1 < len(r.claims) && r.claims[i+1].Place == n: // the last one counts
		case p.grants[i].Status == store.StatusHeld:
			delete(l.places, n)
		case p.grants[i].Status == store.StatusQueued:
			o.since = p.since[i]
		}
	}
}

// giveUp forgets the places that a release gives up, whether or not it was
// answered.
func (l *link) giveUp(r *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range r.holds {
		delete(l.places, r.holds[i].Place)
	}
}

// hear takes a message to a place.
func (l *link) hear(m message) {
	l.deliver(m.name, func(w *watch) {
		l.mu.Lock()
		p := l.places[m.number]
		if p != nil && m.granted != nil {
			p.given = m.granted
		}
		l.mu.Unlock()
		if p != nil {
			w.call(nil)
		}
	})
}

// hearAll takes the message that a name is free, which those hear who have no
// place.
func (l *link) hearAll(name string) {
	l.mu.Lock()
	placed := slices.ContainsFunc(l.placesFor(name), func(p *placeOf) bool { return p.since != 0 })
	l.mu.Unlock()
	if !placed {
		l.deliver(name, func(w *watch) { w.call(nil) })
	}
}

// placesFor are the places that this link has for a name. Under l.mu.
func (l *link) placesFor(name string) []*placeOf {
	var all []*placeOf
	for _, p := range l.places {
		if p.name == name {
			all = append(all, p)
		}
	}
	return all
}

// deliver brings a message to the watches of a name, unless it is lost. It may
// come twice.
func (l *link) deliver(name string, to func(*watch)) {
	f := l.fate("publish", name)
	if f.lost || !l.open() || l.dead.Load() {
		l.w.tally.count(wakeLost)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.watch {
		if w.name != name {
			continue
		}
		time.AfterFunc(f.out, func() { to(w) })
		if f.copied > 0 {
			time.AfterFunc(f.out+f.copied, func() { to(w) })
		}
	}
}
