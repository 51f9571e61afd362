package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/demo/demotest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStory(t *testing.T) {
	t.Parallel()
	demotest.AtOnce(
		func() {
			text := demotest.Holds(t, demo.Setting{}, tell)
			assert.Contains(t, text, "eve: LOST the lock")
			assert.Contains(t, text, "eve: TAKES OVER")
			assert.Contains(t, text, "HEALED")
			assert.NotContains(t, text, ":  has the lock", "each line names a task")
			assert.Regexp(t, `tasks run +50/50 +ok`, text)
			assert.Regexp(t, `retries consumed +0 +ok`, text)
		},
		func() { demotest.Untouched(t, tell) },
	)
}
