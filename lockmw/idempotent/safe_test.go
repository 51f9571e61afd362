package idempotent_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// Around a router, the guard answered reads, and preflights of browsers, with 400.
func TestRequestsThatChangeNothingPassThrough(t *testing.T) {
	t.Parallel()
	for method, passes := range map[string]bool{
		http.MethodGet: true, http.MethodHead: true, http.MethodOptions: true,
		http.MethodTrace: true, http.MethodPost: false, http.MethodPut: false,
		http.MethodPatch: false, http.MethodDelete: false, "get": false,
	} {
		k, s := scripted(t)
		ran := 0
		h := idempotent.Middleware(k, idempotent.Config{Caller: byUser})(http.HandlerFunc(
			func(http.ResponseWriter, *http.Request) { ran++ }))
		for _, key := range []string{"", "k", "k"} {
			r := httptest.NewRequestWithContext(t.Context(), method, "/orders", http.NoBody)
			r.Header.Set("User", "ann")
			if key != "" {
				r.Header.Set("Idempotency-Key", key)
			}
			want := http.StatusOK
			if !passes && key == "" {
				want = http.StatusBadRequest
			}
			assert.Equal(t, want, answered(h, r).Code, method)
		}
		if !passes {
			assert.Equal(t, 1, ran, method)
			continue
		}
		assert.Equal(t, 3, ran, method)
		assert.Empty(t, s.Calls(script.Acquire), method)
	}
}

// A Caller, or a Lock, that is empty is answered with 400, and the observer is
// told.
func TestACallerOfNoNameIsToldOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]idempotent.Config{
		"Caller": {Caller: byName("")},
		"Lock":   {Caller: byUser, Lock: byName(lockmw.All(""))},
	} {
		k, o := observed(t)
		h := idempotent.Middleware(k, c)(http.HandlerFunc(ok))
		for range 3 {
			w := answered(h, order(t.Context(), "k", "pen"))
			assert.Equal(t, http.StatusBadRequest, w.Code, name)
		}
		require.Len(t, o.All(), 1, name)
		assert.NotErrorIs(t, o.All()[0].Err, renewer.ErrConfig)
	}
}
