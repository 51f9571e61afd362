package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/demo/demotest"
)

func TestMain(m *testing.M) {
	demo.Child(runServer)
	goleak.VerifyTestMain(m)
}

func TestStory(t *testing.T) {
	t.Parallel()
	text := demotest.Holds(t, demo.Setting{}, tell)
	assert.Contains(t, text, "30 times, at random")
	demotest.Untouched(t, 1, tell)
}
