package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/demo/demotest"
)

func TestMain(m *testing.M) {
	demo.Child(runNode)
	goleak.VerifyTestMain(m)
}

func TestStory(t *testing.T) {
	t.Parallel()
	demotest.AtOnce(
		func() {
			text := demotest.Holds(t, demo.Setting{}, tell)
			assert.Contains(t, text, "4 of 4")
			assert.Contains(t, text, "was killed in the middle")
		},
		// With locks that do not exclude each other, the verdict says so.
		func() {
			demotest.Breaks(t, demo.Setting{Apart: true}, tell, "each tick was begun once: 0 of 4")
		},
	)
}
