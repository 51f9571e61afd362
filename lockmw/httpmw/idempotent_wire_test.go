package httpmw_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
)

// buy sends a request with an Idempotency-Key.
func buy(t *testing.T, s *httptest.Server, path string) answer {
	t.Helper()
	return send(t, s, http.MethodPost, path, strings.NewReader("pen"), httpmw.IdempotencyKeyHeader, "k", "User", "ann")
}

// Two routes whose prefixes are stripped are not one: what counts is what the client has asked for.
func TestStrippedPrefixesAreTwoRequests(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	once := httpmw.Idempotent(k, byUser)
	say := func(what string) http.Handler {
		return once(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, what) }))
	}
	mux := http.NewServeMux()
	mux.Handle("/charges/", http.StripPrefix("/charges", say("charged")))
	mux.Handle("/refunds/", http.StripPrefix("/refunds", say("refunded")))
	s := serve(t, mux)
	assert.Equal(t, "charged", buy(t, s, "/charges/7").body)
	assert.Equal(t, http.StatusUnprocessableEntity, buy(t, s, "/refunds/7").StatusCode)
	assert.Equal(t, "charged", buy(t, s, "/charges/7").body)
}
