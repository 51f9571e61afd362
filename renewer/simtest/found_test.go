package simtest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// budget is how many worlds a planted fault has to be found in: those that are played in CI anyway.
const budget = 200

// The simulation finds each fault that is planted in the engine.
func TestFindsFaultsOfTheEngine(t *testing.T) {
	t.Parallel()
	for _, f := range engineFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			out, passed := runChild(t, f.name, flags(rand.Uint64N(1<<48), budget)...)
			require.False(t, passed, "not found:\n%s", out)
			require.True(t, slices.ContainsFunc(f.found, func(k kind) bool {
				return strings.Contains(out, ": "+string(k)+": ")
			}),
				"want one of %q:\n%s", f.found, out)
		})
	}
}

// storeFaults are those that can be planted in the store, with the
// kinds of which at least one is to be found.
var storeFaults = []struct {
	name   string
	faults faults
	found  []kind
}{
	{"a renewal shortens the TTL", faults{renewalShortens: true}, untrue},
	{
		"a release frees anybody's",
		faults{freesAnybodys: true},
		[]kind{outside, twoBelieve, falseLoss},
	},
	{
		"a repeated acquire is refused as held by itself",
		faults{refusesItsOwner: true},
		[]kind{lapsed},
	},
	{"a repeated acquire is granted anew", faults{grantsAnew: true}, []kind{outside, tokens}},
	{"reserved tokens are granted again", faults{forgetsReserved: true}, []kind{tokens}},
	{
		"a place is used twice",
		faults{turnTwice: true},
		[]kind{outside, twoBelieve, falseLoss},
	},
	{"a turn is given to the dead for ever", faults{turnForTheDead: true}, []kind{hang, starved}},
	{"a record is not compared", faults{anyRecord: true}, []kind{twoFollow}},
	{"tokens come from the mark of another slot", faults{twoMarks: true}, []kind{tokens}},
}

// The simulation finds each fault that is planted in the store.
func TestFindsFaultsOfTheStore(t *testing.T) {
	t.Parallel()
	for _, f := range storeFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64N(1 << 48)
			for i := range uint64(budget) {
				var found []violation
				synctest.Test(t, func(*testing.T) {
					w := newWorld(newPlan(seed+i, quota, f.faults))
					w.play()
					found = w.ledger.violations
				})
				if slices.ContainsFunc(found, func(v violation) bool {
					return slices.Contains(f.found, v.kind)
				}) {
					t.Logf("found in world %d: %v", i+1, found[0])
					return
				}
			}
			require.Fail(t, "not found", fmt.Sprint("from seed ", seed))
		})
	}
}

// An edit of a place that is not there any more is an error that says
// so, rather than a fault that is not planted.
func TestEditsMustFit(t *testing.T) {
	t.Parallel()
	_, err := edited([]edit{{"keeper.go", "there is no such line", ""}})
	require.ErrorContains(t, err, "the engine has changed")
	_, err = edited([]edit{{"keeper.go", "func ", ""}})
	require.ErrorContains(t, err, "renewer/keeper.go")
}
