package storetest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// Fixture is a store to be tested, and what a test can do to it from outside.
type Fixture struct {
	// Store is empty, or at least keeps its names apart from those of every
	// other Fixture.
	Store store.Store
	// Advance moves the store's clock on by d. If nil, the suite waits for as
	// long.
	Advance func(d time.Duration)
	// Delete makes name free behind the store's back, as an operator would. If
	// nil, the cases that depend on it pass without proving anything.
	Delete func(name string)
	// DeleteLine loses the line of those who wait for name behind the store's
	// back, as FLUSHALL or eviction would, and leaves name as it is. If nil,
	// the cases that depend on it pass without proving anything.
	DeleteLine func(name string)
	// Overwrite makes name another owner's behind the store's back, for 10 s or
	// more: by a value that the store did not write. If nil, the cases that
	// depend on it pass without proving anything.
	Overwrite func(name string)
	// Reserves says that the store reserves fencing tokens for hand-offs.
	// Otherwise it need not.
	Reserves bool
	// Lines says that the store has lines of places, in which those that it
	// watches stand: see [store.Claim]. Otherwise it must ignore places.
	Lines bool
	// Several says that the store asks several servers: what a refused claim
	// got of some is freed behind it. So the name may be had a moment after its
	// release, and where a lease is gone, a refused claim may seem to have
	// taken it. Otherwise it must be had at once.
	Several bool
	// NoLimits says that the store has no limits, and answers a claim for one
	// with an error.
	NoLimits bool
	// Blind says that the store does not know who has a name, since when, or
	// for how long. Otherwise it must.
	Blind bool
	// Crowd is how many callers ask at once in the case that keeps the machine
	// busy; 0: 2500, or 250 in a bubble. A store that answers slowly asks for
	// fewer.
	Crowd int
}

// suite is one case's Fixture with the means to use it.
type suite struct {
	Fixture
	// short is a TTL that lapses soon, but not between two calls in a row, even
	// on a busy machine.
	short time.Duration
	// slack is how far a duration in the store's answers may be off.
	slack time.Duration
	// bubble means that waiting takes no time.
	bubble bool
}

// testCase proves one sentence of the contract, or a few that belong together.
type testCase struct {
	name string
	run  func(t *testing.T, s *suite)
}

// Run runs the suite as subtests of t, each on a Fixture of its own from open.
// The subtests run in parallel, except those that keep the machine busy: they
// run first, since the leases of the others are short.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	t.Helper()
	run := func(t *testing.T, c testCase) {
		t.Helper()
		c.run(t, &suite{
			Fixture: open(t), short: 800 * time.Millisecond,
			slack: 100 * time.Millisecond,
		})
	}
	for _, c := range crowdCases {
		t.Run(c.name, func(t *testing.T) { run(t, c) })
	}
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run(t, c)
		})
	}
}

// RunInBubble is [Run] with each case in a bubble of testing/synctest, where
// waiting takes no time and nothing is late. open is called inside the bubble,
// and the store must do no I/O. Goroutines of the store must end by the end of
// t, so end them by t.Cleanup.
func RunInBubble(t *testing.T, open func(t *testing.T) Fixture) {
	t.Helper()
	for _, c := range append(cases(), crowdCases...) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.inBubble(t, open)
		})
	}
}

func (c testCase) inBubble(t *testing.T, open func(t *testing.T) Fixture) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c.run(t, &suite{
			Fixture: open(t), short: 400 * time.Millisecond,
			slack: time.Millisecond, bubble: true,
		})
	})
}

func cases() []testCase {
	var all []testCase
	for _, group := range [][]testCase{
		acquireCases, lapseCases, renewCases, releaseCases, fenceCases, batchCases, nameCases,
		watchCases, placeCases, limitCases, recordCases, inspectCases, breakCases,
		newestCases,
	} {
		all = append(all, group...)
	}
	return all
}
