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
			for _, part := range []string{
				"200 OK", "409 Conflict", "503 Service Unavailable",
				"#busy", "#unavailable",
				"#lost", "960 are left; the bank's books are wrong by 0\n",
			} {
				assert.Contains(t, text, part)
			}
		},
		// With locks that do not exclude each other, the verdict says so.
		func() {
			verdict := demotest.Breaks(t, demo.Setting{Apart: true}, tell,
				"another one on the other server waits its turn: 200",
				"race with the lock: the balance is right", "most transfers at once")
			assert.NotContains(t, verdict, "race without",
				"what is wrong without the lock is none of its faults")
		},
	)
}
