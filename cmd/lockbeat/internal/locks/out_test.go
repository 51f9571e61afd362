package locks_test

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/out"
)

// Of any text one line of printable letters is shown, and no two texts look
// alike.
func FuzzSafe(f *testing.F) {
	for _, seed := range []string{
		"order:42", "", "a\nlockbeat: b", "\x1b[2J", "\u202e", "\xff", "\"", `"a"`, " a", "a  b", "e\u0301", "\u0301",
		"漢字", "\U000e0041",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		safe := out.Safe(text)
		assert.NotEmpty(t, safe)
		assert.False(t, strings.ContainsFunc(safe, func(r rune) bool { return !unicode.IsPrint(r) }))
		again := safe
		if strings.HasPrefix(safe, `"`) {
			var err error
			again, err = strconv.Unquote(safe)
			require.NoError(t, err)
		}
		assert.Equal(t, text, again)

		for most := range 20 {
			assert.LessOrEqual(t, out.Width(out.Short(safe, most)), most)
		}
		assert.Equal(t, safe, out.Short(safe, out.Width(safe)))

		var b bytes.Buffer
		require.NoError(t, out.JSON(&b, map[string]string{"text": text}))
		for _, r := range b.String() {
			assert.True(t, r == '\n' || unicode.IsPrint(r), "%q", r)
		}
		var message strings.Builder
		out.Warn(&message, text)
		line, ended := strings.CutSuffix(message.String(), "\n")
		assert.True(t, ended && strings.HasPrefix(line, "lockbeat: warning: "))
		for _, r := range line { // one, whatever a server says
			assert.True(t, unicode.IsPrint(r), "%q", r)
		}
	})
}

// No line is wider than the terminal, and the columns that matter most stay.
func TestTableFits(t *testing.T) {
	t.Parallel()
	table := out.Table{
		Columns: []out.Column{
			{Title: "NAME", Least: 10},
			{Title: "HOLDER", Least: 8, Drop: 2},
			{Title: "AGE", Right: true},
			{Title: "TTL", Right: true, Drop: 1},
			{Title: "STATE", Rare: true},
		},
		Rows: [][]string{
			{"order:42", "web-1 pid 4711 (charge)", "3m07s", "12s", ""},
			{out.Safe("漢字漢字漢字漢字漢字漢字\x1b"), "web-2", "4d03h", "850ms", ""},
		},
	}
	for most := 18; most < 80; most++ {
		var b strings.Builder
		require.NoError(t, table.Write(&b, most))
		for line := range strings.Lines(b.String()) {
			assert.LessOrEqual(t, out.Width(strings.TrimSuffix(line, "\n")), most, b.String())
		}
		assert.Contains(t, b.String(), "AGE")
		assert.Contains(t, b.String(), "3m07s")
		assert.NotContains(t, b.String(), "STATE")
	}
	table.Rows[0][4] = "broken"
	for most, want := range map[int]string{
		0: `NAME                            HOLDER                     AGE    TTL  STATE
order:42                        web-1 pid 4711 (charge)  3m07s    12s  broken
"漢字漢字漢字漢字漢字漢字\x1b"  web-2                    4d03h  850ms
`,
		42: `NAME        HOLDER      AGE    TTL  STATE
order:42    web-…ge)  3m07s    12s  broken
"漢字…1b"   web-2     4d03h  850ms
`,
		30: `NAME               AGE  STATE
order:42         3m07s  broken
"漢字漢字…\x1b"  4d03h
`,
	} {
		var b strings.Builder
		require.NoError(t, table.Write(&b, most))
		assert.Equal(t, want, b.String())
	}
}

// A text is broken between words, and a word only where it is longer than a
// line.
func TestWrap(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "no\nconnection\nto\n127.0.0.1:\n1", out.Wrap("no connection to 127.0.0.1:1", 10))
	assert.Equal(t, "漢\n字\na", out.Wrap("漢字 a", 3))
	assert.Equal(t, "a b", out.Wrap("a b", 0))
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0s": -1, "850ms": 850 * time.Millisecond, "1.9s": 1999 * time.Millisecond,
		"59s": time.Minute - 1, "3m07s": 187 * time.Second, "2h05m": 125*time.Minute + 59*time.Second,
		"4d03h": 99 * time.Hour,
	} {
		assert.Equal(t, want, out.Duration(d))
	}
}
