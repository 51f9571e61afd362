package main

import (
	"strings"
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
			assert.Equal(t, 2, strings.Count(text, ": lockbeat.hold of worker"),
				"both links lead to the worker's hold: %s", text)
			assert.Regexp(t, `lockbeat\.hold  \[web-2\] .* lost  ERROR: lock lost: expired`, text)
			assert.Regexp(t, `lockbeat\.renew\.failed at \+\S+ and so on to \+\S+, \d+ times`, text)
		},
		// With locks that do not exclude each other no caller waits, and so
		// none has a link.
		func() {
			demotest.Breaks(t, demo.Setting{Apart: true}, tell,
				"who waited has a link to the hold of the other process: lockbeat.acquire of web-1",
				"who was refused has one too")
		},
	)
}
