package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// play runs the story on the server at addr and returns what was printed, and measured.
func play(t *testing.T, addr string) (text string, f figures) {
	t.Helper()
	var out bytes.Buffer
	line := newTimeline(&out, false)
	f, err := run(t.Context(), line, addr)
	require.NoError(t, err)
	require.True(t, line.close(f), "the story did not hold:\n%s", &out)
	return out.String(), f
}

func TestStory(t *testing.T) {
	t.Parallel()
	text, f := play(t, "")
	assert.True(t, slices.ContainsFunc(f.losses, func(l loss) bool {
		return l.user == "eve"
	}), "the long report's lock is lost")
	assert.Contains(t, text, "LOST the lock")
	assert.Contains(t, text, "TAKES OVER")
	assert.Contains(t, text, "HEALED")
	assert.Regexp(t, `tasks run +50/50 +ok`, text)
	assert.Regexp(t, `retries consumed +0 +ok`, text)
	assert.NotContains(t, text, "\x1b", "colours are for terminals")
	assert.LessOrEqual(t, strings.Count(text, "\n"), 120, "a newcomer reads it in a minute")
	for l := range strings.Lines(text) {
		assert.LessOrEqual(t, len(l), 130, "it fits on a screen: %s", l)
	}
}

// On a server of the user's, nothing is left behind, and nothing that was there is touched.
func TestStoryOnRealServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	require.NoError(t, server.Do("SET", "precious", "1").Error())
	require.NoError(t, server.Do("SADD", "asynq:queues", "default").Error())
	play(t, server.Addr())
	keys, err := server.Do("KEYS", "*").AsStrSlice()
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"precious", "asynq:queues"}, keys)
	queues, err := server.Do("SMEMBERS", "asynq:queues").AsStrSlice()
	require.NoError(t, err)
	assert.Equal(t, []string{"default"}, queues)
}

// Interrupted in the middle, it says that it did not come to its end, and cleans up all the same.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var out bytes.Buffer
	line := newTimeline(&out, false)
	f, err := run(ctx, line, server.Addr())
	require.NoError(t, err)
	assert.False(t, line.close(f))
	assert.Contains(t, f.faults, context.DeadlineExceeded.Error())
	size, err := server.DBSize()
	require.NoError(t, err)
	assert.Zero(t, size)
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	_, err := run(t.Context(), newTimeline(&out, false), "127.0.0.1:1")
	require.ErrorContains(t, err, "connect to Redis at 127.0.0.1:1")
	assert.Empty(t, out.String())
}

// good are figures of which nothing is broken.
func good() figures {
	return figures{
		total: 50, done: 50, most: 1, user: "eve", cut: "node-a", saved: "node-b",
		savedAt: time.Now(), took: 9 * time.Second,
		losses: []loss{{
			user: "eve", at: time.Now(), reason: renewer.ReasonExpired,
			promised: 500 * time.Millisecond,
			left:     530 * time.Millisecond, stopped: time.Millisecond,
		}},
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.True(t, newTimeline(&out, false).close(good()), &out)
	require.NotContains(t, out.String(), "BROKEN")

	for claim, spoil := range map[string]func(*figures){
		"tasks run":                            func(f *figures) { f.done = 49 },
		"most at once per key":                 func(f *figures) { f.most = 2 },
		"retries consumed":                     func(f *figures) { f.retries = 1 },
		"retries consumed: 1":                  func(f *figures) { f.failed = 1 },
		"retries consumed: 2":                  func(f *figures) { f.archived = 2 },
		"losses":                               func(f *figures) { f.losses = nil },
		"told before the key could expire: no": func(f *figures) { f.losses[0].left = -1 },
		"told before the key could expire: nobody": func(f *figures) {
			f.losses[0].err = context.Canceled
		},
		"told before the key could expire: 530": func(f *figures) {
			f.losses[0].reason = renewer.ReasonTaken
		},
		"handler had returned before that": func(f *figures) {
			f.losses[0].stopped = time.Second
		},
		"another node took over: node-a":   func(f *figures) { f.saved = f.cut },
		"another node took over: nobody":   func(f *figures) { f.saved = "" },
		"pages written by a former holder": func(f *figures) { f.stale = 1 },
		"locks left behind: 1 x":           func(f *figures) { f.held = []string{"x"} },
		"time":                             func(f *figures) { f.took = mostTime },
		"interrupted": func(f *figures) {
			f.faults = []string{"interrupted"}
		},
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			f := good()
			spoil(&f)
			var out bytes.Buffer
			require.False(t, newTimeline(&out, false).close(f), &out)
			_, verdict, _ := strings.Cut(out.String(), "It did not hold: ")
			assert.Contains(t, verdict, claim)
		})
	}
}

func TestColours(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	line := newTimeline(&out, true)
	line.say(red, "node-a", "eve", "lost %d", 1)
	line.say(plain, "", "", "plain")
	assert.Regexp(t, `^\x1b\[31m +\d\.\d\d s  node-a  eve   lost 1\x1b\[0m\n +\d\.\d\d s +plain\n$`,
		out.String())
}

// A page that comes under an older fencing token than the shelf has seen is refused.
func TestShelfRefusesFormerHolder(t *testing.T) {
	t.Parallel()
	s, r := newShelf(), Report{ID: "1", User: "eve", Pages: 2}
	require.NoError(t, s.put(r, 0, 7))
	require.ErrorIs(t, s.put(r, 1, 6), errStale)
	require.NoError(t, s.put(r, 1, 8))
	assert.Equal(t, 2, s.pages(r))
	assert.Equal(t, 1, s.refused())
}
