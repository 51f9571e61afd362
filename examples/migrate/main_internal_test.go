package main

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/demo/demotest"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// careless gives all callers what they ask for.
type careless struct{ renewer.Store }

func (c careless) Acquire(ctx context.Context, claims []renewer.Claim) []renewer.Grant {
	return memory.New().Acquire(ctx, claims)
}

func (c careless) Renew(_ context.Context, holds []renewer.Hold) []renewer.Answer {
	answers := make([]renewer.Answer, len(holds))
	for i := range answers {
		answers[i].Status = renewer.StatusHeld
	}
	return answers
}

// falling grants fencing tokens that begin anew.
type falling struct{ renewer.Store }

func (f falling) Acquire(ctx context.Context, claims []renewer.Claim) []renewer.Grant {
	grants := f.Store.Acquire(ctx, claims)
	for i := range grants {
		grants[i].Fence = 1
	}
	return grants
}

// with is a world with this store.
func with(name string, store renewer.Store) world {
	return world{name, func([]renewer.Store) (renewer.Store, error) { return store, nil }, ""}
}

func TestStory(t *testing.T) {
	t.Parallel()
	three := demo.Setting{Servers: 3}
	demotest.AtOnce(
		func() {
			text := demotest.Holds(t, demo.Setting{Servers: 5}, tell(worlds))
			assert.Contains(t, text, "two tickets are sold all the same")
			assert.Contains(t, text, "stopped (2 of 5)")
			assert.Contains(t, text, "it is back: 1 ticket is sold")
		},
		func() { assert.Contains(t, demotest.Untouched(t, 3, tell(worlds)), "stopped (1 of 3)") },
		// With a store that does not exclude, and one that hides that its servers are gone, the
		// verdict says so.
		func() {
			demotest.Breaks(t, three, tell([]world{with("memory", careless{memory.New()})}),
				"memory: all customers have a ticket of their own")
		},
		func() {
			demotest.Breaks(t, three,
				tell([]world{worlds[0], with("one Redis", falling{memory.New()})}),
				"one Redis: fencing tokens rise")
		},
		func() {
			verdict := demotest.Breaks(t, three,
				tell([]world{worlds[0], with("one Redis", memory.New())}),
				"one Redis: a lock that can't be kept is lost",
				"one Redis: a lock that can't be asked for is not busy")
			assert.NotContains(t, verdict, "one Redis: all customers")
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

func TestUnusableServers(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 4} {
		var out bytes.Buffer
		_, err := demo.Play(t.Context(), demo.Setting{Servers: n, Out: &out}, tell(worlds))
		require.ErrorContains(t, err, "an odd number of servers, 3 or more")
		assert.Empty(t, out.String())
	}
}
