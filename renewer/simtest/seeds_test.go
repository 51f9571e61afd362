package simtest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// kept are seeds of worlds that are played in every run: one in which something
// was found goes here, with what it was. A change of the simulation makes another
// world of a seed, so what was found also gets a test of its own in the engine.
var kept = []uint64{
	// A few of each weather, so that a run which is cut short has seen them.
	1, 2, 3, 4, 5, 6, 7, 8,
	// A lost acquire took the key between a clean-up and its late answer,
	// and nobody freed it again (TestSlowReleaseBeforeALostAcquire).
	233032040416595, 154346039133881,
	// A grant that came while Shutdown was freeing was never ended (TestGrantedWhileShutdownFrees).
	247900211572191,
}

// What was found once stays mended.
func TestKeptSeeds(t *testing.T) {
	t.Parallel()
	for _, seed := range kept {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			out, passed := runChild(t, "", flags(seed, 1)...)
			require.True(t, passed, "%s", out)
		})
	}
}
