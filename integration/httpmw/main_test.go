package httpmw_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// middleware is what a router puts around a handler.
type middleware = func(http.Handler) http.Handler

// scripted returns a keeper on a store that records what it is asked.
func scripted(t *testing.T) (*renewer.Keeper, *script.Store) {
	t.Helper()
	store := script.New()
	k, err := renewer.New(store, renewer.Config{TTL: renewer.DefaultTTL, Node: "here"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Shutdown(context.WithoutCancel(t.Context()))) })
	return k, store
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") }

// answer is a response that has been read.
type answer struct {
	status int
	body   string
}

// send asks a server of its own for the path, and returns once the server has ended the request.
func send(t *testing.T, h http.Handler, method, path string) answer {
	t.Helper()
	s := httptest.NewServer(h)
	defer s.Close()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, http.NoBody)
	require.NoError(t, err)
	response, err := s.Client().Do(r)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return answer{response.StatusCode, string(body)}
}
