package httpmw_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// What a request costs above lockmw.Do, which is there to compare: a
// free lock, on a store in memory.
func BenchmarkExclusive(b *testing.B) {
	k, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	require.NoError(b, err)
	b.Cleanup(func() { _ = k.Shutdown(context.WithoutCancel(b.Context())) })
	nop := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/accounts/7/transfer",
		http.NoBody)
	w := httptest.NewRecorder()
	on := func(h http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("POST /accounts/{id}/transfer", h)
		return mux
	}
	for name, h := range map[string]http.Handler{
		"none": on(nop),
		"Do": on(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = lockmw.Do(r.Context(), k, "/accounts/7", func(context.Context) (any, error) {
				return nil, nil
			})
		})),
		"Exclusive": on(httpmw.Exclusive(k, byPath)(nop)),
		"AbortLost": on(httpmw.Exclusive(k, byPath, httpmw.AbortLost())(nop)),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}
