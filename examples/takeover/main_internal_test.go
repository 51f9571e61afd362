package main

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/examples/internal/stage"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) {
	stage.Child(act)
	goleak.VerifyTestMain(m)
}

// The story takes seconds by the clock, and no processor: so it is told three times at once.
func TestStory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	require.NoError(t, server.Do("SET", "precious", "1").Error())
	var wg sync.WaitGroup
	play := func(set stage.Setting, check func(text string, held bool)) {
		wg.Go(func() {
			var out bytes.Buffer
			set.Program, set.Out = "takeover", &out
			held, err := stage.Play(t.Context(), set,
				func(ctx context.Context, s *stage.Stage) error {
					return tell(ctx, s, usualSeed)
				})
			assert.NoError(t, err)
			check(out.String(), held)
		})
	}
	play(stage.Setting{}, func(text string, held bool) {
		assert.True(t, held, text)
		assert.Contains(t, text, "12 of 12")
		assert.Contains(t, text, ", which was killed")
		assert.Regexp(t, `6 workers have the answer: written by worker-\d in attempt 12\n`, text)
		assert.LessOrEqual(t, strings.Count(text, "\n"), 60)
	})
	// On a server of the user's, nothing is left behind, and nothing that was there is touched.
	play(stage.Setting{Redis: server.Addr()}, func(text string, held bool) {
		assert.True(t, held, text)
		keys, err := server.Do("KEYS", "*").AsStrSlice()
		assert.NoError(t, err)
		assert.Equal(t, []string{"precious"}, keys)
	})
	// With locks that do not exclude each other, the verdict says so.
	play(stage.Setting{Apart: true}, func(text string, held bool) {
		assert.False(t, held, text)
		_, verdict, _ := strings.Cut(text, "It did not hold: ")
		assert.Contains(t, verdict, "it succeeded once")
	})
	wg.Wait()
}
