package simtest_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
)

var (
	seedFlag   = flag.Uint64("sim.seed", 0, "the seed of the first world; 0: another in each run")
	grantsFlag = flag.Int("sim.grants", 0, "how many grants in all; 0: 10,000, or 100,000 in a long run")
	traceFlag  = flag.Bool("sim.trace", false, "print what happens in each world")
	worldsFlag = flag.Int("sim.worlds", 0, "how many worlds are played; 0: by -sim.grants")
)

// quota is how many grants a world has: few enough that a violation is near the
// beginning.
const quota = 500

// Whatever the weather, belief lies inside the truth, tokens rise, and nothing
// is left behind.
func TestSimulation(t *testing.T) {
	t.Parallel()
	seed, worlds := *seedFlag, *worldsFlag
	if seed == 0 {
		seed = rand.Uint64N(1 << 48)
	}
	if worlds == 0 {
		grants := cmp.Or(*grantsFlag, suite.Size(10_000, 100_000))
		worlds = (grants + quota - 1) / quota
	}
	if isChild() {
		seen := playWorlds(t, seed, worlds, faultsOf(os.Getenv(faultVariable)))
		t.Logf("in %d worlds:\n%v", worlds, seen)
		for _, e := range everything {
			assert.True(t, seen.n[e] > 0 || worlds < 50 || t.Failed(), "%q never happened", e)
		}
		return
	}
	const children = 2 // as many as CI has processors
	for i := range children {
		t.Run(fmt.Sprint("child ", i), func(t *testing.T) {
			t.Parallel()
			from, to := worlds*i/children, worlds*(i+1)/children
			if from == to {
				return
			}
			out, passed := runChild(t, "", flags(seed+uint64(from), to-from)...)
			require.True(t, passed, "%s", out)
			t.Log(out)
		})
	}
}

func flags(seed uint64, worlds int) []string {
	return []string{
		fmt.Sprint("-sim.trace=", *traceFlag), fmt.Sprint("-sim.seed=", seed),
		fmt.Sprint("-sim.worlds=", worlds),
	}
}

// The engine as it is, with jitter of its own.
func TestEngineAsItIs(t *testing.T) {
	t.Parallel()
	playWorlds(t, rand.Uint64N(1<<48), suite.Size(1, 20), faults{})
}

// playWorlds plays the worlds of so many seeds in a row, until there
// is a violation, and tells what happened in them.
func playWorlds(t *testing.T, seed uint64, worlds int, f faults) *tally {
	t.Helper()
	seen := new(tally)
	t.Logf("-sim.seed=%d -sim.worlds=%d", seed, worlds)
	for i := range uint64(worlds) {
		seen.add(playSeed(t, seed+i, f))
		if t.Failed() {
			break
		}
	}
	return seen
}

// playSeed plays the world of a seed and fails with the command that does so
// again.
func playSeed(t *testing.T, seed uint64, f faults) (seen *tally) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(newPlan(seed, quota, f))
		w.trace.wanted = *traceFlag
		w.play()
		w.trace.tell(t)
		for _, v := range w.ledger.violations {
			t.Error(v)
		}
		if t.Failed() {
			t.Logf("again: go test ./renewer/internal/simtest -run 'TestSimulation$' -sim.seed=%d "+
				"-sim.worlds=1\n%+v", seed, w.plan)
		}
		seen = &w.tally
	})
	return seen
}
