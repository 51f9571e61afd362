package simtest_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
)

// budget is how many worlds a planted fault has to be found in: those of a long
// run.
const budget = 200

// requireFound plays worlds with a fault until it is found as one of these
// kinds of violation. A child ends at a violation of any kind.
func requireFound(t *testing.T, fault string, kinds []kind) {
	t.Helper()
	const children = 5
	for i := range children {
		out, passed := runChild(t, fault, flags(rand.Uint64N(1<<48), budget)...)
		require.False(t, passed, "not found:\n%s", out)
		if slices.ContainsFunc(kinds, func(k kind) bool {
			return strings.Contains(out, ": "+string(k)+": ")
		}) {
			return
		}
		require.Less(t, i, children-1, "want one of %q:\n%s", kinds, out)
	}
}

// untrue is what a belief that outlasts the truth is found as.
var untrue = []kind{outside, twoBelieve, lateNotice}

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
		"a grant is told twice",
		faults{toldTwice: true},
		[]kind{outside, twoBelieve, falseLoss, tokens},
	},
	{"a limit admits one more", faults{oneMore: true}, []kind{twoBelieve}},
	{"a repeated acquire has a second slot", faults{slotTwice: true}, []kind{lapsed, leftover}},
	{"tokens come from the mark of another slot", faults{twoMarks: true}, []kind{tokens}},
}

// The simulation finds each fault that is planted in the store.
func TestFindsFaultsOfTheStore(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	for _, f := range storeFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			requireFound(t, f.name, f.found)
		})
	}
}

// faultsOf are those of the store that a name stands for.
func faultsOf(name string) faults {
	for _, f := range storeFaults {
		if f.name == name {
			return f.faults
		}
	}
	return faults{}
}
