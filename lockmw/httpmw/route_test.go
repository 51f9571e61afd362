package httpmw_test

import (
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// The issue's own example, on both routers.
func TestExclusiveOnARoute(t *testing.T) {
	t.Parallel()
	transfer := func(t *testing.T) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			assert.True(t, lockmw.Held(r.Context(), "/accounts/7"))
			assert.Positive(t, lockmw.Fence(r.Context()))
			assert.Equal(t, "7", r.PathValue("id"))
			ok(w, r)
		})
	}
	for name, build := range map[string]func(t *testing.T, lock func(http.Handler) http.Handler) (h http.Handler, operation string){
		"net/http": func(t *testing.T, lock func(http.Handler) http.Handler) (http.Handler, string) {
			mux := http.NewServeMux()
			mux.Handle("POST /accounts/{id}/transfer", lock(transfer(t)))
			return mux, "POST /accounts/{id}/transfer"
		},
		"chi": func(t *testing.T, lock func(http.Handler) http.Handler) (http.Handler, string) {
			r := chi.NewRouter()
			r.With(lock).Post("/accounts/{id}/transfer", transfer(t).ServeHTTP)
			return r, "/accounts/{id}/transfer"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, store := scripted(t)
			h, operation := build(t, httpmw.Exclusive(k, httpmw.PathValue("id")))
			a := send(t, serve(t, h), http.MethodPost, "/accounts/7/transfer", http.NoBody)
			assert.Equal(t, http.StatusOK, a.StatusCode)
			assert.Equal(t, "done", a.body)
			calls := store.Calls(script.Acquire)
			if assert.Len(t, calls, 1) {
				assert.Equal(t, "/accounts/7", calls[0].Claims[0].Name)
				assert.Equal(t, operation, calls[0].Claims[0].Holder.Operation)
			}
			assert.Len(t, store.Calls(script.Release), 1)
			assert.Empty(t, store.Owner("/accounts/7"))
		})
	}
}
