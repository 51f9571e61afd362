package httpmw_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
)

// With its writer tracked, a handler gives the answer that it gives without,
// however it writes.
func TestATrackedAnswerIsTheSame(t *testing.T) {
	t.Parallel()
	const text = "text\n"
	k, _ := scripted(t)
	for name, answer := range map[string]http.HandlerFunc{
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"status": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
		},
		"Write": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(text))
		},
		"WriteString": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, text)
		},
		"ReadFrom": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader(text))
		},
		"Flush": func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			w.WriteHeader(http.StatusTeapot) // too late
		},
		"FlushError": func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			w.WriteHeader(http.StatusTeapot) // too late
		},
		"Hijack": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if !assert.NoError(t, err) {
				return
			}
			_, _, err = http.NewResponseController(w).Hijack()
			assert.ErrorIs(t, err, http.ErrHijacked)
			_, _ = io.WriteString(conn, "HTTP/1.1 418 \r\nConnection: close\r\n\r\n"+text)
			_ = conn.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plainStatus, plainBody := fetch(t, answer)
			status, body := fetch(t, httpmw.Middleware(k, byName(name), lockmw.Strict())(answer))
			assert.Equal(t, plainStatus, status)
			assert.Equal(t, plainBody, body)
		})
	}
}

// fetch has a server of its own give a handler's answer.
func fetch(t *testing.T, h http.Handler) (status int, body string) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	// it says that a status came too late
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Start()
	defer s.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody)
	require.NoError(t, err)
	a, err := s.Client().Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Body.Close()) }()
	text, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	return a.StatusCode, string(text)
}
