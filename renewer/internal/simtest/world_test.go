package simtest_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// world is one run.
type world struct {
	plan      plan
	start     time.Time
	server    *server
	frozen    *spells
	processes []*process
	mu        sync.Mutex
	links     map[int]*link // by inbox
	calm      atomic.Bool   // the weather is over
	ledger    ledger
	trace     trace
	tally     tally
}

func newWorld(p plan) *world {
	w := &world{plan: p, start: time.Now(), links: map[int]*link{}, frozen: p.spells(p.freezes, "freeze", 0)}
	d := newDice(p.seed, "server")
	w.server = newServer(clock{offset: d.between(0, 1000*time.Hour), drift: p.drift}, p.faults,
		w.ledger.violate, w.tally.count)
	w.server.turn = p.turn
	w.server.tell = func(p place, m message) { w.linkOf(p).hear(m) }
	w.server.hears = func(p place) bool { return w.linkOf(p).hears() }
	w.server.processOf = func(p place) int { return w.linkOf(p).process }
	w.server.later = func(p place, after time.Duration, do func(time.Duration)) {
		time.AfterFunc(after, func() {
			if !w.linkOf(p).dead.Load() {
				do(w.now())
			}
		})
	}
	w.server.tellAll = func(name string) {
		for _, p := range w.processes {
			if l := p.life(); l != nil {
				l.link.hearAll(name)
			}
		}
	}
	w.ledger.open = map[lot]*belief{}
	w.ledger.wants = map[want]*waiting{}
	for i := range p.processes {
		w.processes = append(w.processes, newProcess(w, i))
	}
	return w
}

// linkOf is the link whose inbox a place names.
func (w *world) linkOf(p place) *link {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.links[p.inbox]
}

func (w *world) register(l *link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.links[l.inbox] = l
}

// now is how long the world has been there.
func (w *world) now() time.Duration { return time.Since(w.start) }

// over tells callers to come to an end.
func (w *world) over() bool {
	return w.ledger.grants() >= w.plan.quota || w.ledger.broken() || w.now() > worldFor
}

// worldFor is how long a world lasts if it does not come to its quota.
const worldFor = 1000 * time.Hour

// pass lets d go by.
func pass(d time.Duration) { <-time.After(d) }

// play plays a world in a bubble of its own, and ends with what was wrong.
func (w *world) play() {
	var wg, restarts sync.WaitGroup
	done := make(chan struct{})
	for _, p := range w.processes {
		for i := range w.plan.callers {
			wg.Go(newCaller(w, p, i).run)
		}
		if w.plan.restarts && w.plan.mostWait == 0 {
			restarts.Go(func() { p.restart(done) })
		}
	}
	if w.plan.disasters {
		restarts.Go(func() { w.disasters(done) })
	}
	if w.plan.mostWait > 0 && w.plan.kills {
		restarts.Go(func() { w.massacres(done) })
	}
	wg.Wait()
	close(done)
	restarts.Wait()
	w.calm.Store(true)
	w.epilogue()
}

// epilogue is in calm weather: the traces of the storm go, an idle
// lease costs what it should, and nothing is left at the end.
func (w *world) epilogue() {
	w.idle()
	for _, p := range w.processes {
		p.shutdown(time.Minute, true)
	}
	synctest.Wait()
	w.ledger.inspect(w.server, w.now(), w.plan)
	for _, t := range w.server.held(w.now()) {
		if !t.mayLapse() && w.plan.weather == drizzle && !w.server.leftByKilled(&t) {
			w.ledger.violate(leftover, "after every keeper's shutdown: %v", &t)
		}
	}
	// A claim that its caller did not wait for may be later than the release of
	// its place.
	if w.plan.weather == crowd && !w.plan.kills &&
		20*w.tally.n[turnsLapsed] > w.tally.n[turnsInLine] {
		w.ledger.violate(wasted, "%d turns", w.tally.n[turnsLapsed])
	}
	// a copy may be later than the release that gives its place up
	if w.plan.weather != storm && !w.plan.restarts && w.plan.copies == 0 {
		w.server.inspectLines(func(name string, p place) {
			if l := w.links[p.inbox]; !l.dead.Load() {
				w.ledger.violate(leftover, "place %d of process %d for %q", p.number, l.process, name)
			}
		})
	}
	back := w.server.backBy()
	pass(10*w.plan.cfg.TTL + back + back/8) // the longest of any kind, by a clock that is slow
	for _, t := range w.server.held(w.now()) {
		w.ledger.violate(leftover, "long after the last request: %v", &t)
	}
}

// idle lets each process hold a name that nobody else wants, and counts its
// heartbeats.
func (w *world) idle() {
	var wg sync.WaitGroup
	for i, p := range w.processes {
		wg.Go(func() {
			name := fmt.Sprint("idle ", i)
			k := p.keeper()
			every := k.Config().Heartbeat
			pass(time.Duration(i) * time.Microsecond)
			for range 10 { // until it knows that the weather is calm
				if k.HealthCheck() == nil {
					break
				}
				pass(time.Second)
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			l, err := k.Acquire(ctx, renewer.Request{Name: name})
			if err != nil {
				w.ledger.violate(hang, "in calm weather: %v", err)
				return
			}
			if w.plan.cfg.MaxHold == 0 {
				before := 0 // the rhythm begins with the first heartbeat
				for begun := w.now(); before < 1 &&
					w.now() < begun+3*every; before = w.server.renewals(name) {
					pass(every / 64)
				}
				pass(idleFor*every + every/2)
				if n := w.server.renewals(name) - before; n != idleFor {
					w.ledger.violate(heartbeats, "%d renewals in %d intervals", n, idleFor)
				}
			}
			if err := l.Release(context.Background()); err != nil {
				w.ledger.violate(falseLoss, "in calm weather: %v", err)
			}
		})
	}
	wg.Wait()
}

// idleFor is for how many intervals.
const idleFor = 20

// keeperConfig is that of every keeper, with its defaults filled in.
func (w *world) keeperConfig() renewer.Config { return w.processes[0].keeper().Config() }
