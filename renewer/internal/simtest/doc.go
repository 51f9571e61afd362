// Package simtest proves the engine in simulation: real keepers, many hours
// of bad weather in a second, and every grant checked. It holds tests only.
//
// A world is one run: some processes, each with a keeper of its own, whose
// callers want the same few names from one store. The store is a model of a
// server, with a clock that runs at another rate than theirs. Between them is a
// network that loses, delays, doubles and reorders requests, replies and
// wake-ups, and at times lets nothing through; the server freezes now and then.
// Callers give up, are cancelled, ignore it, hold on after a loss, extend their
// leases themselves, and take two names at once in some worlds; processes end
// and begin anew. All this happens in a bubble of testing/synctest, in which
// time stands still while anybody works: every instant is exact.
//
// The server's book of who had which name from when to when is the truth.
// Against it every belief is checked, at each grant, at random instants
// and at the end: see the kinds of violation in violation_test.go.
//
// There are two kinds of weather. In a storm everything happens, and what is
// checked is safety. In a drizzle requests and replies are lost one by one and
// callers are told so soon: no lease may be lost then, and no key may be left
// to lapse.
//
// In some worlds the names are limits, which several hold at once; there it is
// counted how many believe in one.
//
// # Seeds
//
// All of a world follows from its seed: its configuration, what each caller
// does, and the fate of the n-th request of a process for a name, whatever else
// is under way. TestSimulation plays in processes of its own, on one processor,
// in which the engine's jitter comes from the instant. Which worlds are played
// changes with each run. A violation prints the command that plays its world
// again,
//
//	go test ./renewer/internal/simtest -run 'TestSimulation$' -sim.seed=12345 -sim.worlds=1
//
// to which -sim.trace adds the story. What was found gets a test of its own in
// the engine, since a change of the simulation makes another world of a seed.
// What is left to chance is what Go leaves to it: which case of a select is
// taken when two are ready at the same instant, as when a shutdown begins, and,
// on a busy machine, which of two goroutines comes first in it.
//
// # Planted faults
//
// Whether the simulation would find anything is tested too: faults can be
// planted in the store, and each must be found in the worlds of one run.
package simtest
