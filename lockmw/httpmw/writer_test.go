package httpmw_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
)

// abilities is what a writer can do beside writing.
func abilities(w http.ResponseWriter) string {
	var b strings.Builder
	for _, c := range []struct {
		name string
		is   bool
	}{
		{"Flusher", is[http.Flusher](w)},
		{"FlushError", is[interface{ FlushError() error }](w)},
		{"Hijacker", is[http.Hijacker](w)},
		{"ReaderFrom", is[io.ReaderFrom](w)},
		{"StringWriter", is[io.StringWriter](w)},
		{"Pusher", is[http.Pusher](w)},
		{"FullDuplex", is[interface{ EnableFullDuplex() error }](w)},
	} {
		if c.is {
			b.WriteString(c.name + " ")
		}
	}
	return b.String()
}

func is[T any](v any) bool { _, ok := v.(T); return ok }

func TestWriterIsTheServersOwn(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]httpmw.Option{
		"as it is": nil,
		"wrapped":  {lockmw.Strict()},
	} {
		for proto, edit := range protocols {
			t.Run(name+" by "+proto, func(t *testing.T) {
				t.Parallel()
				k, _ := scripted(t)
				var given http.ResponseWriter
				var can string
				locked := httpmw.Middleware(k, byName("a"),
					opts...)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					assert.Equal(t, opts == nil, given == w)
					assert.Equal(t, can, abilities(w))
					assert.NoError(t, http.NewResponseController(w).Flush())
					ok(w, r)
				}))
				a := send(t, serve(t,
					http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						given, can = w, abilities(w)
						locked.ServeHTTP(w, r)
					}), edit), http.MethodGet, "/", http.NoBody)
				assert.Equal(t, "done", a.Text)
				assert.Contains(t, can,
					map[string]string{
						"HTTP/1.1": "Hijacker ReaderFrom",
						"HTTP/2":   "StringWriter Pusher",
					}[proto])
			})
		}
	}
}

func TestHijackedConnection(t *testing.T) {
	t.Parallel()
	unasked := httpmw.OnRefused(func(http.ResponseWriter, *http.Request, error) {
		assert.Fail(t, "a connection taken over counts as written")
	})
	wrapped := []httpmw.Option{unasked, lockmw.Strict()}
	for name, opts := range map[string][]httpmw.Option{"as it is": nil, "wrapped": wrapped} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, store := scripted(t, quick)
			s := serve(t, httpmw.Middleware(k, byName("a"),
				opts...)(loser(store, func(w http.ResponseWriter) {
				conn, _, err := w.(http.Hijacker).Hijack()
				if assert.NoError(t, err) {
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone")
					_ = conn.Close()
				}
			}, nothing)), quiet)
			assert.Equal(t, "done", send(t, s, http.MethodGet, "/", http.NoBody).Text)
		})
	}
}
