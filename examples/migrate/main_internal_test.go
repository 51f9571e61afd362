package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// play tells the story and returns what was printed.
func play(
	ctx context.Context, t *testing.T, addrs []string, worlds []world,
) (text string, held bool) {
	t.Helper()
	var out bytes.Buffer
	held, err := run(ctx, &page{out: &out}, addrs, worlds)
	require.NoError(t, err)
	return out.String(), held
}

func TestStory(t *testing.T) {
	t.Parallel()
	text, held := play(t.Context(), t, nil, worlds)
	require.True(t, held, text)
	assert.Contains(t, text, "2 of 5 servers are stopped in the middle of a sale: seats 1 and 2 "+
		"are sold all the same")
	assert.Equal(t, 2, strings.Count(text, "they are back: seat 1 is sold"))
	assert.NotContains(t, text, "BROKEN")
	assert.LessOrEqual(t, strings.Count(text, "\n"), 60, "a newcomer reads it in a minute")
	for l := range strings.Lines(text) {
		assert.LessOrEqual(t, len(l), 150, "it fits on a screen: %s", l)
	}
}

// What is printed as the line that changes is the line.
func TestLines(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("store.go")
	require.NoError(t, err)
	for _, w := range worlds {
		assert.Contains(t, string(source), "\n\t\t"+w.line+"\n", w.name)
	}
}

// On servers of the user's, nothing is left behind, and nothing that was there is touched.
func TestStoryOnRealServers(t *testing.T) {
	t.Parallel()
	var all []*redistest.Server
	var addrs []string
	for range 3 {
		server := redistest.Start(t)
		require.NoError(t, server.Do("SET", "precious", "1").Error())
		all, addrs = append(all, server), append(addrs, server.Addr())
	}
	text, held := play(t.Context(), t, addrs, worlds)
	require.True(t, held, text)
	assert.Contains(t, text, "1 of 3 servers are stopped")
	for _, server := range all {
		keys, err := server.Do("KEYS", "*").AsStrSlice()
		require.NoError(t, err)
		assert.Equal(t, []string{"precious"}, keys)
	}
}

// careless gives everybody what they ask for.
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

// With a store that does not exclude, and one that hides that its
// servers are gone, the verdict says so.
func TestVerdictFindsFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		worlds []world
		want   []string
	}{
		"careless": {
			[]world{{"memory", func([]renewer.Store) (renewer.Store, error) {
				return careless{memory.New()}, nil
			}, ""}},
			[]string{"memory: everybody has a seat of their own"},
		},
		"not on its servers": {
			[]world{worlds[0], {"one Redis", func([]renewer.Store) (renewer.Store, error) {
				return memory.New(), nil
			}, ""}},
			[]string{
				"one Redis: a lock that can't be kept is told",
				"one Redis: a lock that nobody can tell of is not called busy",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, held := play(t.Context(), t, nil, c.worlds)
			require.False(t, held, text)
			_, verdict, _ := strings.Cut(text, "It did not hold: ")
			for _, claim := range c.want {
				assert.Contains(t, verdict, claim)
			}
			assert.NotContains(t, verdict, "one Redis: everybody")
			assert.NotContains(t, verdict, "locks left behind")
		})
	}
}

// Interrupted in the middle, it says that it did not come to its end, and cleans up all the same.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	text, held := play(ctx, t, nil, worlds)
	require.False(t, held)
	assert.Contains(t, text, "it came to its end")
	assert.Regexp(t, `locks left behind +0 +ok`, text)
}

func TestUnusableServers(t *testing.T) {
	t.Parallel()
	for addrs, want := range map[string]string{
		"a:1,b:2":                             "an odd number, 3 or more",
		"a:1":                                 "an odd number, 3 or more",
		"127.0.0.1:1,127.0.0.1:1,127.0.0.1:1": "connect to Redis at 127.0.0.1:1",
	} {
		var out bytes.Buffer
		_, err := run(t.Context(), &page{out: &out}, strings.Split(addrs, ","), worlds)
		require.ErrorContains(t, err, want)
		assert.Empty(t, out.String())
	}
}
