// Package demotest plays the stories of the examples in their tests.
package demotest

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// AtOnce calls all of fs at once: a story takes seconds by the clock and little
// of the processor, and only a few parallel tests run at a time.
func AtOnce(fs ...func()) {
	var all sync.WaitGroup
	for _, f := range fs {
		all.Go(f)
	}
	all.Wait()
}

// play plays a story and returns what was printed, and whether all of it held.
func play(t *testing.T, set demo.Setting, tell demo.Story) (text string, held bool) {
	t.Helper()
	var out bytes.Buffer
	set.Program, set.Out = "test", &out
	held, err := demo.Play(t.Context(), set, tell)
	assert.NoError(t, err, "%s", &out)
	return out.String(), held
}

// Holds plays a story and expects that all of it held, on a screen. It returns
// what was printed.
func Holds(t *testing.T, set demo.Setting, tell demo.Story) string {
	t.Helper()
	text, held := play(t, set, tell)
	assert.True(t, held, "%s", text)
	assert.LessOrEqual(t, strings.Count(text, "\n"), 120, "a newcomer reads it in a minute")
	for line := range strings.Lines(text) {
		assert.LessOrEqual(t, len(line), 150, "it fits on a screen: %s", line)
	}
	return text
}

// Breaks plays a story and expects that these claims did not hold. It returns
// the verdict.
func Breaks(t *testing.T, set demo.Setting, tell demo.Story, claims ...string) string {
	t.Helper()
	text, held := play(t, set, tell)
	assert.False(t, held, "%s", text)
	_, verdict, _ := strings.Cut(text, "It did not hold: ")
	for _, claim := range claims {
		assert.Contains(t, verdict, claim)
	}
	assert.NotContains(t, verdict, "locks left behind")
	return verdict
}

// Untouched plays a story on a server of the user's: it expects that nothing is
// left behind, and that nothing that was there is touched.
func Untouched(t *testing.T, tell demo.Story) string {
	t.Helper()
	server := redistest.Start(t)
	assert.NoError(t, server.Do("SADD", "asynq:queues", "default").Error())
	text := Holds(t, demo.Setting{Redis: server.Addr()}, tell)
	assert.Equal(t, []string{"asynq:queues"}, keysOf(t, server))
	queues, err := server.Do("SMEMBERS", "asynq:queues").AsStrSlice()
	assert.NoError(t, err)
	assert.Equal(t, []string{"default"}, queues)
	return text
}

// keysOf are the keys of a server but the one that stays: the name of asynq's
// database.
func keysOf(t *testing.T, server *redistest.Server) []string {
	t.Helper()
	keys, err := server.Do("KEYS", "*").AsStrSlice()
	assert.NoError(t, err)
	return slices.DeleteFunc(keys, func(key string) bool { return key == "asynq:lockbeat" })
}
