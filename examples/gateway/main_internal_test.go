package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/demo/demotest"
)

func TestMain(m *testing.M) {
	demo.Child(runReplica)
	goleak.VerifyTestMain(m)
}

func TestStory(t *testing.T) {
	t.Parallel()
	demotest.AtOnce(
		func() {
			text := demotest.Holds(t, demo.Setting{}, tell)
			assert.Contains(t, text, "20 of 20, 3 of 3")
		},
		// With limits of its own for each replica, the verdict says so.
		func() {
			demotest.Breaks(t, demo.Setting{Apart: true}, tell,
				"hang-ups: most streams at once", "hang-ups: slots in Redis, and streams")
		},
	)
}
