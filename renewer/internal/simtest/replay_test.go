package simtest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A world that is played again has the same grants at the same
// instants, unless a keeper was shut down on the way.
func TestAWorldIsPlayedAgain(t *testing.T) {
	t.Parallel()
	for seed, left := uint64(1), 2; left > 0; seed++ {
		if p := newPlan(seed, quota, faults{}); p.restarts || p.kills {
			continue
		}
		left--
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			// On a busy machine Go stops a goroutine in the middle of an
			// instant now and then, and another comes first: one world of
			// forty, with twelve at once on a processor.
			var stories [5][]string
			for i := range stories {
				stories[i] = grantsOf(t, seed)
				require.Greater(t, len(stories[i]), quota/2)
				for _, earlier := range stories[:i] {
					if slices.Equal(earlier, stories[i]) {
						return
					}
				}
			}
			require.Equal(t, stories[0], stories[1], "no two of %d are equal", len(stories))
		})
	}
}

// grantsOf plays a world and gives what its story tells of grants, which is all
// that was random.
func grantsOf(t *testing.T, seed uint64) []string {
	t.Helper()
	out, passed := runChild(t, "", append(flags(seed, 1), "-sim.trace")...)
	require.True(t, passed, "%s", out)
	var grants []string
	for line := range strings.Lines(out) {
		if strings.Contains(line, " by token ") && strings.Contains(line, " has \"") {
			grants = append(grants, line)
		}
	}
	return grants
}
