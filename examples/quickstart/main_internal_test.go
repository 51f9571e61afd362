package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/demo/demotest"
	"github.com/lockbeat/lockbeat/renewer"
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
			assert.Regexp(t, `tasks run +50/50 +ok`, text)
			assert.Regexp(t, `retries consumed +0 +ok`, text)
		},
		func() { demotest.Untouched(t, 1, tell) },
	)
	demotest.Interrupted(t, tell)
}

// Each claim is a check: with one figure wrong, the verdict names it.
func TestClaims(t *testing.T) {
	t.Parallel()
	for claim, spoil := range map[string]func(w *witness, failed *int){
		"":                       func(*witness, *int) {},
		"tasks run: 1/2":         func(w *witness, _ *int) { w.total = 2 },
		"most at once per key":   func(w *witness, _ *int) { w.most = 2 },
		"retries consumed: 1":    func(w *witness, _ *int) { w.retries = 1 },
		"retries consumed: 2":    func(_ *witness, failed *int) { *failed = 2 },
		"losses: 0":              func(w *witness, _ *int) { w.losses = nil },
		"could expire: 0s":       func(w *witness, _ *int) { w.losses[0].left = -1 },
		"could expire: context":  func(w *witness, _ *int) { w.losses[0].err = context.Canceled },
		"expire: 530ms by":       func(w *witness, _ *int) { w.losses[0].reason = renewer.ReasonTaken },
		"had returned before":    func(w *witness, _ *int) { w.losses[0].stopped = time.Second },
		"took over: node-a":      func(w *witness, _ *int) { w.saver = "node-a" },
		"took over: .":           func(w *witness, _ *int) { w.saver = "" },
		"by a former holder: 1.": func(w *witness, _ *int) { w.shelf.stale = 1 },
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			tell := func(_ context.Context, d *demo.Demo) error {
				failed, w := 0, newWitness(d, orders())
				w.total, w.most, w.finished["a"], w.cut, w.saver = 1, 1, true, "node-a", "node-b"
				w.losses = []loss{{
					user: "eve", reason: renewer.ReasonExpired, promised: 500 * time.Millisecond,
					left: 530 * time.Millisecond, stopped: time.Millisecond,
				}}
				spoil(w, &failed)
				w.claim(d, failed)
				return nil
			}
			if claim == "" {
				demotest.Holds(t, demo.Setting{}, tell)
			} else {
				demotest.Breaks(t, demo.Setting{}, tell, claim)
			}
		})
	}
}

// A page that comes under an older fencing token than the shelf has seen is refused.
func TestShelfRefusesFormerHolder(t *testing.T) {
	t.Parallel()
	s, r := newShelf(), Report{ID: "1", User: "eve", Pages: 2}
	require.NoError(t, s.put(r, 0, 7))
	require.ErrorIs(t, s.put(r, 1, 6), errStale)
	require.NoError(t, s.put(r, 1, 8))
	assert.Equal(t, 2, s.pages(r))
	assert.Equal(t, 1, s.stale)
}
