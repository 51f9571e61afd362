package httpmw_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	soon = 20 * time.Second // bounds what happens in a moment
	tick = 5 * time.Millisecond
)

// scripted returns a keeper on a store that records what it is asked.
func scripted(t *testing.T, edit ...func(*renewer.Config)) (*renewer.Keeper, *script.Store) {
	store := script.New()
	return newKeeper(t, store, edit...), store
}

func newKeeper(t *testing.T, store renewer.Store, edit ...func(*renewer.Config)) *renewer.Keeper {
	cfg := renewer.Config{TTL: renewer.DefaultTTL, Node: "here"}
	for _, f := range edit {
		f(&cfg)
	}
	k, err := renewer.New(store, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), soon)
		defer cancel()
		_ = k.Shutdown(ctx)
	})
	return k
}

// inBubble runs f in a bubble with a keeper on a scripted store.
func inBubble(t *testing.T, f func(t *testing.T, s *script.Store, k *renewer.Keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k, s := scripted(t)
		f(t, s, k)
	})
}

// hold takes a lock, until the function that it returns is called.
func hold(t *testing.T, k *renewer.Keeper, name string) (release func()) {
	t.Helper()
	lease, err := k.Acquire(t.Context(), name, renewer.MaxWait(soon))
	require.NoError(t, err)
	return func() { require.NoError(t, lease.Release(t.Context())) }
}

// asked reports whether the store was asked anything.
func asked(s *script.Store) bool {
	return len(s.Calls(script.Acquire))+len(s.Calls(script.Renew))+len(s.Calls(script.Release)) > 0
}

// names are the locks that the store was asked for.
func names(s *script.Store) []string {
	var names []string
	for _, c := range s.Calls(script.Acquire) {
		for _, claim := range c.Claims {
			names = append(names, claim.Name)
		}
	}
	return names
}

// serve runs a server until the test ends.
func serve(t *testing.T, h http.Handler, edit ...func(*httptest.Server)) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	for _, f := range edit {
		f(s)
	}
	if s.EnableHTTP2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func http2(s *httptest.Server) { s.EnableHTTP2 = true }

// answer is a response that has been read.
type answer struct {
	*http.Response

	body string
	err  error // of reading the body
}

// send sends a request and reads the answer.
func send(
	t *testing.T, s *httptest.Server, method, path string, body io.Reader, header ...string,
) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, body)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	res, err := s.Client().Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	return read(res)
}

// read reads an answer to its end and closes it.
func read(res *http.Response) answer {
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	return answer{res, string(body), err}
}

// do calls a handler directly.
func do(h http.Handler, r *http.Request) answer {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return read(w.Result())
}

func get(t *testing.T, path string) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
}

// never is a handler that must not run.
func never(t *testing.T) http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		assert.Fail(t, "the handler ran")
	})
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") }

func byName(name string) func(*http.Request) (string, error) {
	return func(*http.Request) (string, error) { return name, nil }
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }

// protocols are what a server speaks.
var protocols = map[string]func(*httptest.Server){
	"HTTP/1.1": func(*httptest.Server) {},
	"HTTP/2":   http2,
}

// quiet keeps to itself what a server logs.
func quiet(s *httptest.Server) {
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
}

// uncomplaining has a server fail the test if it has something to log.
func uncomplaining(t *testing.T) func(*httptest.Server) {
	return func(s *httptest.Server) {
		s.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(failer{t}, nil), slog.LevelError)
	}
}

type failer struct{ t *testing.T }

func (f failer) Write(p []byte) (int, error) {
	assert.Fail(f.t, "the server complains: "+string(p))
	return len(p), nil
}
