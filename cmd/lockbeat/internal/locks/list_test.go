package locks_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
)

// hostile are names that a careless table would print, and what is printed.
var hostile = map[string]string{
	"red \x1b[31m":           `"red \x1b[31m"`,
	"bell\a and\nline":       `"bell\a and\nline"`,
	"\u202egnp.exe":          `"\u202egnp.exe"`,
	"c1 \u009b2J":            `"c1 \u009b2J"`,
	"no utf-8 \xff":          `"no utf-8 \xff"`,
	"del \x7f":               `"del \x7f"`,
	`"quoted"`:               `"\"quoted\""`,
	" spaces ":               `" spaces "`,
	"müller@example.org":     "müller@example.org",
	"<script>&amp;</script>": "<script>&amp;</script>",
	"astral \U000e0041":      `"astral \U000e0041"`,
}

func TestNamesArePrintedSafely(t *testing.T) {
	t.Parallel()
	s := start(t)
	k := s.keeper(t, "web-\x1b[1m1", patience)
	for name := range hostile {
		hold(t, k, name, renewer.Request{Operation: "\u202eop"})
	}
	lines := strings.Split(s.ok(t, "ls"), "\n")
	for _, shown := range hostile {
		found := 0
		for _, line := range lines {
			if strings.HasPrefix(line, shown+"  ") {
				found++
			}
		}
		assert.Equal(t, 1, found, shown)
	}
	locks, total, cut := decode(t, s.ok(t, "ls", "--json"))
	assert.Len(t, locks, len(hostile))
	assert.Equal(t, len(hostile), total)
	assert.False(t, cut)
	for _, lock := range locks {
		name := lock.Name
		if lock.Bytes != nil {
			name = string(lock.Bytes)
		}
		assert.Contains(t, hostile, name, "there and back")
		again, _, _ := decode(t, s.ok(t, "show", name, "--json", "--look", "0"))
		require.Len(t, again, 1)
		assert.Equal(t, renewer.HashName(name, nil), again[0].Hash)
		assert.Contains(t, s.ok(t, "show", name, "--look", "0"), "lock       "+hostile[name]+"\n")
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	s := start(t)
	r := s.run(t, "ls")
	assert.Equal(t, result{"", "lockbeat: no such lock is held\n", 0}, r)

	k := s.keeper(t, "web-1", patience)
	hold(t, k, "order:1", renewer.Request{Operation: "charge"})
	for range 2 {
		hold(t, k, "user:7", renewer.Request{Limit: three})
	}
	require.NoError(t, s.Do("SET", "lockbeat:{foreign}", "x").Error())
	hold(t, k, "order:2")
	s.wait(t, s.keeper(t, "web-2", patience), "order:2")

	names := func(args ...string) (names []string) {
		text := s.ok(t, append([]string{"ls"}, args...)...)
		for line := range strings.Lines(text) {
			name, _, _ := strings.Cut(line, " ")
			names = append(names, name)
		}
		return names[1:]
	}
	assert.Equal(t, []string{"order:1", "user:7", "order:2", "foreign"}, names())
	assert.Equal(t, []string{"order:2", "order:1"}, names("order:?", "--sort", "waiters"))
	assert.Equal(t, []string{"foreign", "order:1", "order:2", "user:7"},
		names("--sort", "name"))
	assert.Empty(t, s.run(t, "ls", "--older", "1h").stdout)
	text := s.ok(t, "ls", "--sort", "name")
	for _, want := range []string{
		`(?m)^NAME +HOLDER +AGE +TTL +WAITING  STATE$`,
		`(?m)^order:1 +web-1 pid \d+ \(charge\) +\S+ +\d+s +-$`,
		`(?m)^order:2 +web-1 pid \d+ +\S+ +\d+s +1$`,
		`(?m)^user:7 \(limit\) +2 hold it +\S+ +\d+s +-$`,
		`(?m)^foreign +another program +- +- +-  foreign$`,
	} {
		assert.Regexp(t, want, text)
	}

	r = s.run(t, "ls", "--limit", "2")
	assert.Equal(t, 4, r.status)
	assert.Equal(t, "lockbeat: 2 of 4: --limit has cut the list\n", r.stderr)
	assert.Equal(t, 3, strings.Count(r.stdout, "\n"))
	r = s.run(t, "ls", "--limit", "2", "--json")
	locks, total, cut := decode(t, r.stdout)
	assert.Equal(t, []any{2, 4, true, 4, ""}, []any{len(locks), total, cut, r.status, r.stderr})

	for _, wrong := range [][]string{
		{"ls", "a", "b"},
		{"ls", "--sort", "x"},
		{"ls", "--limit", "-1"},
		{"ls", "--older", "-1s"},
		{"top", "--every", "1ms"},
		{"show"},
		{"show", "a", "--hash", "b"},
		{"show", ""},
		{"show", strings.Repeat("x", 600)},
		{"show", "a", "--secret-file", "/does/not/exist"},
		{"break", "--why", "x"},
		{"break", "a", "--token", "1"},
		{"break", "a", "--why", "x"},
		{"break", "a", "--why", "x", "--token", "-5"},
		{"break", "a", "--why", "x", "--token", "0"},
	} {
		r := s.run(t, wrong...)
		assert.Equal(t, 64, r.status, wrong)
		assert.NotEmpty(t, r.stderr)
		assert.Empty(t, r.stdout)
	}
}

// A table each time where there is no terminal, and an end with the first
// error.
func TestTopWithoutATerminal(t *testing.T) {
	t.Parallel()
	s := start(t)
	require.NoError(t, s.Do("SET", "lockbeat:{foreign}", "x").Error())
	time.AfterFunc(time.Second, s.Kill)
	r := s.run(t, "top", "--every", "100ms")
	assert.Equal(t, 69, r.status)
	assert.Contains(t, r.stderr, "lockbeat doctor")
	assert.Greater(t, strings.Count(r.stdout, "1 held, 0 waiting; 1 foreign\nNAME "), 1)
}
