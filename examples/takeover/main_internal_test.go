package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/demo/demotest"
)

func TestMain(m *testing.M) {
	demo.Child(runWorker)
	goleak.VerifyTestMain(m)
}

func TestStory(t *testing.T) {
	t.Parallel()
	demotest.AtOnce(
		func() {
			text := demotest.Holds(t, demo.Setting{}, tell)
			assert.Contains(t, text, "12 of 12")
			assert.Contains(t, text, ", which was killed")
			assert.Regexp(t, `6 workers have the answer: written by worker-\d in attempt 12\n`, text)
		},
		// With locks that do not exclude each other, the verdict says so.
		func() { demotest.Breaks(t, demo.Setting{Apart: true}, tell, "it succeeded once") },
	)
}
