package libraries_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// middleware is what a router puts around a handler.
type middleware = func(http.Handler) http.Handler

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
