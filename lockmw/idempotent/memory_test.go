package idempotent_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
)

// An answer far above MaxAnswer was made ready to be stored, and then looked at: it took several
// times its size. It is looked at first, wherever its bytes are.
//
//nolint:paralleltest // it counts what the process allocates
func TestAnAnswerIsNotEncodedToLearnThatItIsTooLarge(t *testing.T) {
	const size = 16 << 20
	large, chunk := strings.Repeat("x", size), make([]byte, 1<<16)
	k, _ := scripted(t)
	for name, handler := range map[string]http.HandlerFunc{
		"body": func(w http.ResponseWriter, _ *http.Request) {
			for range size / len(chunk) {
				_, _ = w.Write(chunk)
			}
		},
		"body, as it is stored": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, base64.StdEncoding.DecodedLen(idempotent.DefaultMaxAnswer)))
		},
		"header": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Large", large)
		},
		"trailer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(http.TrailerPrefix+"X-Large", large)
		},
	} {
		h := idempotent.Middleware(k, byName(name))(handler)
		w := &counting{header: make(http.Header)}
		r := order(t.Context(), "k", "pen")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		h.ServeHTTP(w, r)
		runtime.ReadMemStats(&after)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size/16), name)
		assert.Equal(t, http.StatusOK, w.status, name)
		again := httptest.NewRecorder()
		h.ServeHTTP(again, order(t.Context(), "k", "pen"))
		assert.Equal(t, http.StatusConflict, again.Code, name)
		assert.Contains(t, again.Body.String(), "TypeNotKept", name)
	}
}
