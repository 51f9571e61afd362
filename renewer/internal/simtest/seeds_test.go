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
	// A lost acquire took the key between a clean-up and its late answer,
	// and nobody freed it again (TestSlowReleaseBeforeALostAcquire).
	233032040416595, 154346039133881,
	// A grant that came while Shutdown was freeing was never ended (TestGrantedWhileShutdownFrees).
	247900211572191,
}

// What was found once stays mended, and each weather is seen, however few worlds are played.
func TestKeptSeeds(t *testing.T) {
	t.Parallel()
	worlds := map[uint64]int{1: 8}
	for _, seed := range kept {
		worlds[seed] = 1
	}
	for seed, n := range worlds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			out, passed := runChild(t, "", flags(seed, n)...)
			require.True(t, passed, "%s", out)
		})
	}
}
