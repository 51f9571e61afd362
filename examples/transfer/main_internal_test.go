package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/examples/internal/stage"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func play(t *testing.T, set stage.Setting) (text string, held bool) {
	t.Helper()
	var out bytes.Buffer
	set.Program, set.Out = "transfer", &out
	held, err := stage.Play(t.Context(), set, tell)
	require.NoError(t, err)
	return out.String(), held
}

func TestStory(t *testing.T) {
	t.Parallel()
	text, held := play(t, stage.Setting{})
	require.True(t, held, text)
	assert.Contains(t, text, "400 of 400")
	assert.LessOrEqual(t, strings.Count(text, "\n"), 40)
}

// On a server of the user's, nothing is left behind, and nothing that was there is touched.
func TestStoryOnRealServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	require.NoError(t, server.Do("SET", "precious", "1").Error())
	text, held := play(t, stage.Setting{Redis: server.Addr()})
	require.True(t, held, text)
	keys, err := server.Do("KEYS", "*").AsStrSlice()
	require.NoError(t, err)
	assert.Equal(t, []string{"precious"}, keys)
}

// With locks that do not exclude each other, the verdict says so.
func TestLocksOfTheirOwn(t *testing.T) {
	t.Parallel()
	text, held := play(t, stage.Setting{Apart: true})
	require.False(t, held, text)
	_, verdict, _ := strings.Cut(text, "It did not hold: ")
	assert.Contains(t, verdict, "most transfers at once on an account")
}
