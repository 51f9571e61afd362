// Package webtest has what the tests of HTTP guards share: keepers on a
// scripted store, servers, requests, and answers that have been read. It is for
// tests only.
package webtest

import (
	"context"
	"encoding/json"
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

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// Soon bounds what happens in a moment.
const Soon = 20 * time.Second

// Scripted returns a keeper on a store that records what it is asked.
func Scripted(t *testing.T, edit ...func(*renewer.Config)) (*renewer.Keeper, *script.Store) {
	t.Helper()
	store := script.New()
	return Keeper(t, store, edit...), store
}

// Keeper returns a keeper that is shut down when the test ends.
func Keeper(
	t *testing.T, store renewer.Store, edit ...func(*renewer.Config),
) *renewer.Keeper {
	t.Helper()
	cfg := renewer.Config{TTL: renewer.DefaultTTL, Node: "here", Log: renewer.Silent}
	for _, f := range edit {
		f(&cfg)
	}
	k, err := renewer.New(store, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Soon)
		defer cancel()
		_ = k.Shutdown(ctx)
	})
	return k
}

// InBubble runs f in a bubble with a keeper on a scripted store.
func InBubble(t *testing.T, f func(t *testing.T, s *script.Store, k *renewer.Keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k, s := Scripted(t)
		f(t, s, k)
	})
}

// Hold takes a lock, until release is called.
func Hold(t *testing.T, k *renewer.Keeper, name string) (release func()) {
	t.Helper()
	lease, err := k.Acquire(t.Context(), renewer.Request{Name: name, MaxWait: Soon})
	require.NoError(t, err)
	return func() { require.NoError(t, lease.Release(t.Context())) }
}

// Names are the locks that the store was asked for.
func Names(s *script.Store) (names []string) {
	for _, c := range s.Calls(script.Acquire) {
		for _, claim := range c.Claims {
			names = append(names, claim.Name)
		}
	}
	return names
}

// Faults is an observer that keeps what it is told of trouble.
type Faults struct {
	renewer.NopObserver

	mu   sync.Mutex
	told []renewer.Fault
}

// Fault keeps f.
func (o *Faults) Fault(f renewer.Fault) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told = append(o.told, f)
}

// SetUp are the texts of the faults, in order, which all are of a server that
// is set up wrongly.
func (o *Faults) SetUp(t *testing.T) (texts []string) {
	t.Helper()
	for _, f := range o.All() {
		require.ErrorIs(t, f.Err, renewer.ErrConfig)
		assert.Empty(t, f.Name)
		assert.Equal(t, "serve HTTP", f.Doing)
		texts = append(texts, f.Err.Error())
	}
	return texts
}

// All are the faults, in order.
func (o *Faults) All() []renewer.Fault {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.told
}

// Observed returns a keeper on a scripted store, and what it is told of
// trouble.
func Observed(t *testing.T) (*renewer.Keeper, *Faults) {
	t.Helper()
	o := new(Faults)
	k, _ := Scripted(t, func(c *renewer.Config) { c.Observer = o })
	return k, o
}

// Serve runs a server until the test ends.
func Serve(t *testing.T, h http.Handler, edit ...func(*httptest.Server)) *httptest.Server {
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

// Protocols are what a server speaks.
var Protocols = map[string]func(*httptest.Server){
	"HTTP/1.1": func(*httptest.Server) {},
	"HTTP/2":   func(s *httptest.Server) { s.EnableHTTP2 = true },
}

// Quiet keeps to itself what a server logs.
func Quiet(s *httptest.Server) {
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
}

// Uncomplaining has a server fail the test if it has something to log.
func Uncomplaining(t *testing.T) func(*httptest.Server) {
	return func(s *httptest.Server) {
		s.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(failer{t}, nil), slog.LevelError)
	}
}

type failer struct{ t *testing.T }

func (f failer) Write(p []byte) (int, error) {
	assert.Fail(f.t, "the server complains: "+string(p))
	return len(p), nil
}

// Answer is a response that has been read.
type Answer struct {
	*http.Response

	Text string // the body
	Err  error  // of reading the body
}

// Send sends a request, with headers in pairs, and reads the answer.
func Send(
	t *testing.T, s *httptest.Server, method, path string, body io.Reader, header ...string,
) Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, body)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	res, err := s.Client().Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	return Read(res)
}

// Read reads an answer to its end and closes it.
func Read(res *http.Response) Answer {
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	return Answer{res, string(body), err}
}

// Do calls a handler directly.
func Do(h http.Handler, r *http.Request) Answer {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return Read(w.Result())
}

// Problem is a problem document as a client reads it.
type Problem struct {
	Type, Title, Detail string
	Status              int
}

// Secret is in the names that tests lock, and must not be in answers.
const Secret = "alice@example.com"

// RequireProblem requires a refusal that a client can read, without the lock's
// name.
func RequireProblem(t *testing.T, a Answer, status int, typ string) Problem {
	t.Helper()
	require.Equal(t, status, a.StatusCode, a.Text)
	assert.Equal(t, "application/problem+json", a.Header.Get("Content-Type"))
	assert.Equal(t, "no-store", a.Header.Get("Cache-Control"))
	var p Problem
	require.NoError(t, json.Unmarshal([]byte(a.Text), &p), a.Text)
	assert.Equal(t, status, p.Status)
	assert.Equal(t, typ, p.Type)
	assert.NotEmpty(t, p.Title)
	assert.NotContains(t, a.Text, Secret)
	return p
}

// Never is a handler that must not run.
func Never(t *testing.T) http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		assert.Fail(t, "the handler ran")
	})
}

// OK answers "done".
func OK(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") }

// ByName is a key function for one name.
func ByName[N any](name N) func(*http.Request) N {
	return func(*http.Request) N { return name }
}
