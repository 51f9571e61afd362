package fault

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// Field is what faults act on.
type Field struct {
	Deployment *deploy.Deployment
	Links      []deploy.Links // a worker's each
	Crew       Crew
	Keys       []string // of the locks
	TTL        time.Duration
}

// Crew are the worker processes.
type Crew interface {
	// Kill ends a worker by kill -9.
	Kill(worker int) error
	// Start starts a killed one again.
	Start(worker int) error
	// Stop freezes a worker by SIGSTOP.
	Stop(worker int) error
	// Cont lets it go on.
	Cont(worker int) error
}

// Fault is one thing that goes wrong, once. Inject and Heal are called in this order, once each.
type Fault struct {
	// What says what goes wrong, and where.
	What string
	// Inject begins it, and Heal ends it. Heal undoes as much as
	// there is even if Inject has failed.
	Inject, Heal func() error
}

// Kind makes faults.
type Kind struct {
	Name string
	// Voids says in words what it voids; "" if nothing.
	Voids string
	// Forgets: a server may lose what it has confirmed.
	Forgets bool
	// Hangs: a server does not answer for longer than Sentinels wait before they fail over.
	Hangs bool
	// Clock: a wall clock is stepped, so that until it has caught up
	// tokens rise only as long as their counter is remembered.
	Clock bool
	// Apart: it leaves servers alone, so that one may fail meanwhile.
	Apart bool
	// Fits reports whether it makes sense; nil: always.
	Fits func(*Field) bool
	// New makes one, its target chosen by the dice.
	New func(*Field, *rand.Rand) Fault
}

// VoidsExclusion reports whether two may believe in one lock while it
// is at work, and for a TTL after.
func (k Kind) VoidsExclusion(d *deploy.Deployment) bool {
	return k.Forgets || k.Hangs && d.Sentinel != nil
}

// Kinds are all kinds.
func Kinds() []Kind {
	var all []Kind
	for _, some := range [][]Kind{
		workers(),
		links(), servers(), refusing(),
		forgetting(), splits(), clocks(), topology(),
	} {
		all = append(all, some...)
	}
	return all
}

// Named returns the kinds with these names, or all that fit.
func Named(f *Field, names []string) ([]Kind, error) {
	var chosen []Kind
	known := make(map[string]Kind)
	for _, k := range Kinds() {
		known[k.Name] = k
		if len(names) == 0 && (k.Fits == nil || k.Fits(f)) {
			chosen = append(chosen, k)
		}
	}
	for _, name := range names {
		k, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("fault: there is no fault %q", name)
		}
		if k.Fits != nil && !k.Fits(f) {
			return nil, fmt.Errorf("fault: %q makes no sense on %s", name, f.Deployment.Kind)
		}
		chosen = append(chosen, k)
	}
	return chosen, nil
}

// server picks one that holds locks.
func (f *Field) server(dice *rand.Rand) (*redistest.Server, string) {
	i := dice.IntN(len(f.Deployment.Servers))
	return f.Deployment.Servers[i], fmt.Sprintf("server %d", i+1)
}

// worker picks one.
func (f *Field) worker(dice *rand.Rand) (int, string) {
	i := dice.IntN(len(f.Links))
	return i, fmt.Sprintf("worker %d", i+1)
}
