package idempotent_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	soon   = 20 * time.Second // bounds what happens in a moment
	secret = "alice@example.com"

	maxAnswer = repeat.DefaultMaxAnswer
)

var errDown = errors.New("connection refused")

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

// faultLog is an observer that keeps what it is told of trouble.
type faultLog struct {
	renewer.NopObserver

	mu     sync.Mutex
	faults []renewer.Fault
}

func (o *faultLog) Fault(f renewer.Fault) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.faults = append(o.faults, f)
}

// errs are the texts of the faults, in order.
func (o *faultLog) errs(t *testing.T) (texts []string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.faults {
		require.ErrorIs(t, f.Err, renewer.ErrConfig)
		assert.Empty(t, f.Name)
		assert.Equal(t, "serve HTTP", f.Doing)
		texts = append(texts, f.Err.Error())
	}
	return texts
}

func observed(t *testing.T) (*renewer.Keeper, *faultLog) {
	o := new(faultLog)
	k, _ := scripted(t, func(c *renewer.Config) { c.Observer = o })
	return k, o
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

// protocols are what a server speaks.
var protocols = map[string]func(*httptest.Server){
	"HTTP/1.1": func(*httptest.Server) {},
	"HTTP/2":   func(s *httptest.Server) { s.EnableHTTP2 = true },
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

// reply is a response that has been read.
type reply struct {
	*http.Response

	body string
	err  error // of reading the body
}

// send sends a request and reads the answer.
func send(
	t *testing.T, s *httptest.Server, method, path string, body io.Reader, header ...string,
) reply {
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
func read(res *http.Response) reply {
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	return reply{res, string(body), err}
}

// do calls a handler directly.
func do(h http.Handler, r *http.Request) reply {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return read(w.Result())
}

// asReply is an answer that was recorded.
func asReply(w *httptest.ResponseRecorder) reply {
	return reply{w.Result(), w.Body.String(), nil}
}

// problem is a body as a client reads it.
type problem struct {
	Type, Title, Detail string
	Status              int
}

// requireProblem requires a refusal that a client can read, without the lock's name.
func requireProblem(t *testing.T, a reply, status int, typ string) problem {
	t.Helper()
	require.Equal(t, status, a.StatusCode, a.body)
	assert.Equal(t, "application/problem+json", a.Header.Get("Content-Type"))
	assert.Equal(t, "no-store", a.Header.Get("Cache-Control"))
	var p problem
	require.NoError(t, json.Unmarshal([]byte(a.body), &p), a.body)
	assert.Equal(t, status, p.Status)
	assert.Equal(t, typ, p.Type)
	assert.NotEmpty(t, p.Title)
	assert.NotContains(t, a.body, secret)
	return p
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

func waitFor(d time.Duration) { <-time.After(d) }
