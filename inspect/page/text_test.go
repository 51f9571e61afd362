package page_test

import (
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/inspect/page"
)

func TestSpell(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 999 * time.Millisecond: "0 s", 59 * time.Second: "59 s",
		time.Minute: "1 min 00 s", 3599 * time.Second: "59 min 59 s", time.Hour: "1 h 00 min",
		25*time.Hour + 59*time.Minute: "1 d 01 h", 400 * 24 * time.Hour: "400 d 00 h",
	} {
		assert.Equal(t, want, page.Spell(d))
	}
}

func TestVisible(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"order:42": "order:42", `a\b`: `a\b`, "עברית": "עברית", "\u202ea\\b": `\u202ea\\b`,
		"\x00\n\xff": `\x00\n\xff`, "\ufffd": `\ufffd`, "a\u00a0b": `a\u00a0b`,
	} {
		got, odd := page.Visible(s)
		assert.Equal(t, want, got)
		assert.Equal(t, s != want, odd, s)
	}
	_, odd := page.Visible(" a")
	assert.True(t, odd)
}

// What people see of a name hides nothing, and its link leads to it and no
// other.
func FuzzNames(f *testing.F) {
	for _, name := range names {
		f.Add(name, true)
	}
	f.Fuzz(func(t *testing.T, name string, limit bool) {
		text, _ := page.Visible(name)
		assert.True(t, utf8.ValidString(text))
		assert.Negative(t, strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }))
		q, err := url.ParseQuery(page.Query(name, limit))
		assert.NoError(t, err)
		assert.Equal(t, name, q.Get("name"))
		assert.Equal(t, limit, q.Has("limit"))
	})
}
