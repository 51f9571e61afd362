package page_test

import (
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/inspect/page"
	"github.com/lockbeat/lockbeat/internal/testutil/webtest"
	"github.com/lockbeat/lockbeat/renewer/store"
)

func TestEveryAnswerIsSecure(t *testing.T) {
	t.Parallel()
	p := newPage(t, &fake{locks: []store.Lock{held("a", 7, 0)}}, page.Config{BreakAs: alice})
	post := httptest.NewRequest(http.MethodPost, "/break?name=a&fence=7", http.NoBody)
	for _, r := range []*http.Request{
		get("/"), get("/lock?name=a"), get("/lock?name="),
		get("/lock?hash=000000"), get("/lock?hash=x"), get("/break?name=a&fence=7"), post,
		get("/page.css"), get("/list.js"), get("/lock.js"), get("/live.js"), get("/nothing"),
		get("/list.html"), get("/..%2fpage.go"),
		httptest.NewRequest(http.MethodDelete, "/", http.NoBody),
	} {
		a := webtest.Do(p, r)
		h := a.Header
		assert.Equal(t, "default-src 'none'; script-src 'self'; style-src 'self'; "+
			"connect-src 'self'; frame-ancestors 'none'; form-action 'self'; base-uri 'none'",
			h.Get("Content-Security-Policy"), r.URL)
		assert.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), r.URL)
		isForm := r.URL.Path == "/break" && r.Method == http.MethodGet
		assert.Equal(t, map[bool]string{false: "no-referrer", true: "same-origin"}[isForm],
			h.Get("Referrer-Policy"), r.URL)
		isFile := regexp.MustCompile(`\.(css|js)$`).MatchString(r.URL.Path)
		assert.Equal(t, map[bool]string{false: "no-store", true: "no-cache"}[isFile],
			h.Get("Cache-Control"), r.URL)
		if strings.HasPrefix(h.Get("Content-Type"), "text/html") {
			assert.NotRegexp(t, `(?i)<style|\sstyle=|\son[a-z]+=|https?:|<script[^>]*>[^<]`, a.Text, r.URL)
		}
		if r.URL.Path == "/list.html" || r.URL.Path == "/nothing" {
			assert.Equal(t, http.StatusNotFound, a.StatusCode, r.URL)
		}
	}
}

func TestFilesAreSentWhenTheyAreNew(t *testing.T) {
	t.Parallel()
	p := newPage(t, &fake{}, page.Config{})
	a := webtest.Do(p, get("/list.js"))
	assert.Equal(t, "text/javascript; charset=utf-8", a.Header.Get("Content-Type"))
	again := get("/list.js")
	again.Header.Set("If-None-Match", a.Header.Get("ETag"))
	assert.Equal(t, http.StatusNotModified, webtest.Do(p, again).StatusCode)
}

func TestNamesThatNoLockHas(t *testing.T) {
	t.Parallel()
	p := newPage(t, &fake{}, page.Config{})
	for _, name := range []string{"", strings.Repeat("n", store.MaxName+1), "\x00lockbeat-limit:a"} {
		a := webtest.Do(p, get(lockPath(name)))
		assert.Equal(t, http.StatusBadRequest, a.StatusCode)
		assert.Contains(t, a.Text, "No lock can have this name.")
	}
	assert.Equal(t, http.StatusOK, webtest.Do(p, get(lockPath("free"))).StatusCode)
}

func TestPageBelowAnyPath(t *testing.T) {
	t.Parallel()
	p := newPage(t, &fake{}, page.Config{})
	for _, prefix := range []string{"/ops/locks", "/ops/locks/"} {
		h := http.StripPrefix(prefix, p)
		a := webtest.Do(h, get("/ops/locks/"))
		require.Equal(t, http.StatusOK, a.StatusCode)
		assert.NotRegexp(t, `(href|src|action)="/`, a.Text)
		assert.Equal(t, http.StatusOK, webtest.Do(h, get("/ops/locks/page.css")).StatusCode)
	}
	a := webtest.Do(http.StripPrefix("/ops/locks", p), get("/ops/locks?q=x"))
	assert.Equal(t, "./locks/", a.Header.Get("Location"))
}

// names are those that try to be something else.
var names = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`,
	`javascript:alert(1)`, `{{.}}`, "\u202ecod.exe", "\u2066\u200bx\ufeff", "\x00\x1b[31m\r\n\t",
	"\xff\xfe", " spaces ", "+%20&limit=1#x?y=/../z", `back\slash`, "עברית", "🔒",
	strings.Repeat("n", store.MaxName),
}

func TestForeignTextIsEscaped(t *testing.T) {
	t.Parallel()
	for _, name := range names {
		l := held(name, 7, time.Minute)
		l.Slots[0].Holder = store.Holder{Node: name, PID: 1, Operation: name, Trace: name}
		l.Slots[0].Broken = &store.Broken{By: name, Why: name}
		l.Places = []store.Place{{Holder: l.Slots[0].Holder, Version: name}}
		l.Waiting = 1
		f := &fake{locks: []store.Lock{l}}
		p := newPage(t, f, page.Config{BreakAs: func(*http.Request) string { return name }})
		assert.NotRegexp(t, "<img|<script>", // what is in the field is as the reader typed it
			webtest.Do(p, get("/?q="+url.QueryEscape(name))).Text)
		list := webtest.Do(p, get("/"))
		links := regexp.MustCompile(`<td class="name"><a href="(lock\?[^"]*)"`).
			FindAllStringSubmatch(list.Text, -1)
		require.Len(t, links, 4, "the lock, that it was broken, and the script's two empty rows")
		assert.Equal(t, links[0], links[1])
		lock := webtest.Do(p, get("/"+html.UnescapeString(links[0][1])))
		f.mu.Lock()
		assert.Equal(t, []string{name}, f.shows, "the link leads to another lock")
		f.mu.Unlock()
		form := regexp.MustCompile(`href="(break\?[^"]*)"`).FindStringSubmatch(lock.Text)
		require.NotNil(t, form)
		shown := webtest.Do(p, get("/"+html.UnescapeString(form[1])))
		require.Equal(t, http.StatusOK, shown.StatusCode)
		for _, a := range []webtest.Answer{list, lock, shown} {
			if strings.ContainsAny(name, "<>\"'") || !utf8.ValidString(name) {
				assert.NotContains(t, a.Text, name)
			}
			assert.NotRegexp(t, "[\x00\x1b\u202e\u2066\u200b\ufeff]|<img|<script>", a.Text)
			assert.Regexp(t, `href="(lock|\./)`, a.Text)
		}
		events := lookAt(t, p, "/events", nil)
		require.Eventually(t, func() bool {
			events.mu.Lock()
			defer events.mu.Unlock()
			return strings.Contains(events.sent.String(), "data: ")
		}, webtest.Soon, time.Millisecond)
		sent := events.events()[0]
		assert.Equal(t, 1, strings.Count(sent, "\n"), sent)
		assert.NotRegexp(t, "[\x00\x1b\r\u202e<>]", sent)
	}
}

func TestWithoutScript(t *testing.T) {
	t.Parallel()
	f := &fake{locks: []store.Lock{
		held("b", 1, time.Hour), held("a", 2, time.Minute), held("other", 3, time.Second),
	}}
	f.locks[1].Slots[0].Operation = "refund"
	f.locks[2].Waiting = 12
	p := newPage(t, f, page.Config{})
	rows := func(query string) (names []string) {
		found := regexp.MustCompile(`<td class="name"><a href="[^"]*"><bdi>([^<]+)<`).
			FindAllStringSubmatch(webtest.Do(p, get("/"+query)).Text, -1)
		for _, m := range found {
			names = append(names, m[1])
		}
		return names
	}
	for query, want := range map[string][]string{
		"":                      {"b", "a", "other"}, // those held for the longest time first
		"?sort=held":            {"other", "a", "b"},
		"?sort=name":            {"a", "b", "other"},
		"?sort=-name":           {"other", "b", "a"},
		"?sort=-waiting":        {"other", "a", "b"},
		"?sort=no&q=REF":        {"a"},
		"?q=charge+web-1":       {"b", "other"},
		"?q=no":                 nil,
		"?sort=name&sort=-held": {"a", "b", "other"}, // the button's comes before the field's
	} {
		assert.Equal(t, want, rows(query), query)
	}
	a := webtest.Do(p, get("/"))
	assert.Contains(t, a.Text, `aria-sort="descending"><button form="view" name="sort" value="held"`)
	assert.Contains(t, a.Text, `<span class="age h7">1 h 00 min</span>`)
	assert.Contains(t, a.Text, `<a href="">Reload</a>`)
	many := make([]store.Lock, 151)
	for i := range many {
		many[i] = held(strings.Repeat("x", i+1), 1, 0)
	}
	f.change(func() { f.locks = many })
	p = newPage(t, f, page.Config{})
	assert.Len(t, rows(""), 150)
	assert.Len(t, rows("?all=1"), 151)
}
