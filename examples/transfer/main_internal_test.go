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
	assert.Contains(t, demotest.Untouched(t, tell), "200 of 200")
	// With locks that do not exclude each other, the verdict says so.
	demotest.Breaks(t, demo.Setting{Apart: true}, tell, "with locks: changes undone")
}
