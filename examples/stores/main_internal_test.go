package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/demo/demotest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStory(t *testing.T) {
	t.Parallel()
	demotest.AtOnce(
		func() {
			text := demotest.Holds(t, demo.Setting{Servers: 5}, tell(worlds))
			assert.Contains(t, text, "two tickets are sold all the same")
			assert.Contains(t, text, "stopped (2 of 5)")
			assert.Contains(t, text, "it is back: 1 ticket is sold")
		},
		// With a store that hides that its servers are gone, the verdict says
		// so.
		func() {
			hiding := worlds[0]
			hiding.name = "one Redis"
			demotest.Breaks(t, demo.Setting{Servers: 3}, tell([]world{worlds[0], hiding}),
				"one Redis: a lock that can't be kept is lost",
				"one Redis: a lock that can't be asked for is not busy")
		},
	)
}

// What is printed as the line that changes is the line.
func TestLines(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("app.go")
	require.NoError(t, err)
	for _, w := range worlds {
		assert.Contains(t, string(source), "\n\t\t"+w.line+"\n", w.name)
	}
}
