package page_test

import (
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/inspect/page"
	"github.com/lockbeat/lockbeat/internal/testutil/webtest"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	_, err := page.New(script.New(), page.Config{})
	require.ErrorIs(t, err, renewer.ErrConfig)
	require.ErrorContains(t, err, "can't be inspected")
	_, err = page.New(&fake{}, page.Config{
		Every: time.Millisecond, Most: -1, Colour: "pink", TraceURL: "x",
	})
	require.ErrorIs(t, err, renewer.ErrConfig)
	for _, field := range []string{"Every", "Most", "Colour", "TraceURL"} {
		require.ErrorContains(t, err, "Config."+field)
	}
	for template, good := range map[string]bool{
		"https://jaeger.example/trace/{trace}":         true,
		"http://grafana:3000/explore?left={trace}&x=y": true,
		"https://jaeger.example/trace/":                false,
		"javascript:alert('{trace}')":                  false,
		"data:text/html,{trace}":                       false,
		"//jaeger.example/{trace}":                     false,
		"https:{trace}":                                false,
		"https://a b/{trace}":                          false,
	} {
		_, err := page.New(&fake{}, page.Config{TraceURL: template})
		assert.Equal(t, good, err == nil, template)
	}
}

// Of two tabs, staging and production, one is told from the other.
func TestTitleIsOnEveryPage(t *testing.T) {
	t.Parallel()
	f := &fake{locks: []store.Lock{held("a", 7, 0)}}
	paths := []string{"/", "/lock?name=a", "/break?name=a&fence=7", "/nothing"}
	p := newPage(t, f, page.Config{BreakAs: alice, Title: "prod <1>\u202e", Colour: "red"})
	plain := newPage(t, f, page.Config{BreakAs: alice})
	for _, path := range paths {
		text := webtest.Do(p, get(path)).Text
		assert.Contains(t, text, "<title>prod &lt;1&gt;\\u202e · ", path)
		assert.Contains(t, text, `<p class="where red"><bdi>prod &lt;1&gt;\u202e</bdi></p>`, path)
		text = webtest.Do(plain, get(path)).Text
		assert.NotContains(t, text, "where", path)
		assert.NotContains(t, text, "<title> ·", path)
	}
}

const traceID = "0af7651916cd43dd8448eb211c80319c"

func TestTracesLeadToWhereTheyAreSeen(t *testing.T) {
	t.Parallel()
	l := held("a", 7, time.Minute)
	l.Slots[0].Trace = "00-" + traceID + "-b7ad6b7169203331-01"
	f := &fake{locks: []store.Lock{l}}
	link := `<a href="https://traces.example/t?id=` + traceID + `&amp;q=%22" rel="noreferrer">`
	p := newPage(t, f, page.Config{TraceURL: `https://traces.example/t?id={trace}&q="`})
	assert.Contains(t, webtest.Do(p, get("/lock?name=a")).Text, link)
	text := webtest.Do(newPage(t, f, page.Config{}), get("/lock?name=a")).Text
	assert.Contains(t, text, "<code>"+traceID+"</code>")
	assert.NotContains(t, text, `rel="noreferrer"`)
}

// A line of a log has the hash of a name, which may be made with a secret.
func TestLocksAreFoundByTheHashThatLogsShow(t *testing.T) {
	t.Parallel()
	for _, secret := range [][]byte{nil, []byte("pepper")} {
		f := &fake{
			locks:  []store.Lock{held("order:42", 7, time.Hour), held("order:43", 8, time.Hour)},
			answer: store.Answer{Status: store.StatusHeld},
		}
		var log strings.Builder
		p := newPage(t, f, page.Config{
			LogSecret: secret, BreakAs: alice, Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		hash := renewer.HashName("order:42", secret)
		for query, want := range map[string]string{
			hash: "1 of 2", hash[:6]: "1 of 2", "lock_hash=" + hash: "1 of 2",
			strings.ToUpper(hash): "1 of 2", hash[:5]: "0 of 2", hash[1:]: "0 of 2",
			renewer.HashName("order:42", []byte("other")): "0 of 2",
		} {
			text := webtest.Do(p, get("/?q="+url.QueryEscape(query))).Text
			found := regexp.MustCompile(`<output [^>]*>([^<]*)<`).FindStringSubmatch(text)
			assert.Equal(t, want, found[1], query)
		}
		assert.Contains(t, webtest.Do(p, get(lockPath("order:42"))).Text,
			"lock_hash <code>"+hash+"</code>")
		a := webtest.Do(p, fillIn(t, p, form, url.Values{"why": {"hangs"}}))
		assert.Equal(t, http.StatusSeeOther, a.StatusCode)
		assert.Contains(t, log.String(), "lock_hash="+hash)
	}
}
