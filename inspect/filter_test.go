package inspect_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/inspect"
	"github.com/lockbeat/lockbeat/renewer"
)

// matches is Match by another way: each byte is a letter of Latin-1 to the
// regular expression.
func matches(pattern, name string) bool {
	latin := func(s string) string {
		runes := make([]rune, len(s))
		for i := range len(s) {
			runes[i] = rune(s[i])
		}
		return string(runes)
	}
	text := regexp.QuoteMeta(latin(pattern))
	text = strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(text)
	return regexp.MustCompile(`(?s)\A` + text + `\z`).MatchString(latin(name))
}

func FuzzMatch(f *testing.F) {
	for _, seed := range [][2]string{
		{"", ""},
		{"", "a"},
		{"*", ""},
		{"*", "a\nb"},
		{"order:*", "order:42"},
		{"order:*", "order"},
		{"*:4?", "order:42"},
		{"a*b*c", "aXbXbc"},
		{"a*b*c", "aXbXcb"},
		{"?", "é"},
		{"??", "é"},
		{"**?", "x"},
		{"*a", "ba\x00"},
		{`\*`, `\x`},
		{"[a]", "a"},
		{"[a]", "[a]"},
		{"A", "a"},
		{"*\xff", "é\xff"},
		{"a?", "a"},
		{"*ab", "aab"},
		{"*aab*", "aaab"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 500 { // more than a regular expression may repeat
			return
		}
		want := matches(pattern, name)
		assert.Equal(t, want, inspect.Match(pattern)(name, false), "%q, %q", pattern, name)
		assert.Equal(t, want, inspect.Match(pattern)(name, true), "%q, %q", pattern, name)
	})
}

// A pattern from a request keeps no processor busy.
func TestMatchIsQuick(t *testing.T) {
	t.Parallel()
	name, pattern := strings.Repeat("a", 512), strings.Repeat("a*", 256)+"b"
	begun := time.Now()
	for range 100 {
		assert.False(t, inspect.Match(pattern)(name, false))
	}
	assert.Less(t, time.Since(begun), 10*time.Second)
}

func TestHash(t *testing.T) {
	t.Parallel()
	secret := []byte("secret")
	for _, with := range [][]byte{nil, secret} {
		hash := renewer.HashName("order:42", with)
		assert.True(t, inspect.Hash(hash, with)("order:42", false))
		assert.True(t, inspect.Hash(hash, with)("order:42", true), "a limit of that name, too")
		assert.False(t, inspect.Hash(hash, with)("order:43", false))
		assert.False(t, inspect.Hash(hash, []byte("other"))("order:42", false))
		assert.False(t, inspect.Hash(hash[:6], with)("order:42", false))
	}
}
