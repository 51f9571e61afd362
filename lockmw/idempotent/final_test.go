package idempotent_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A refusal of ours is no answer of the handler, which has not run: whatever its status, the next
// request with the key runs.
func TestARefusalFurtherInIsNotStored(t *testing.T) {
	t.Parallel()
	answers := httpmw.OnRefused(func(w http.ResponseWriter, _ *http.Request, _ error) {
		w.WriteHeader(http.StatusOK)
	})
	for name, c := range map[string]struct {
		status int
		opts   []httpmw.Option
		around func(http.Handler) http.Handler
	}{
		"409":                    {status: 409, opts: []httpmw.Option{httpmw.Refuse(409)}},
		"423":                    {status: 423, opts: []httpmw.Option{httpmw.Refuse(423)}},
		"429":                    {status: 429, opts: []httpmw.Option{httpmw.Refuse(429)}},
		"skipped":                {status: 204, opts: []httpmw.Option{httpmw.Skip()}},
		"wait ran out":           {status: 503, opts: []httpmw.Option{httpmw.Wait(time.Second)}},
		"a responder of its own": {status: 200, opts: []httpmw.Option{httpmw.Refuse(409), answers}},
		"behind a TimeoutHandler": {
			status: 409, opts: []httpmw.Option{httpmw.Refuse(409)},
			around: func(h http.Handler) http.Handler {
				return http.TimeoutHandler(h, time.Minute, "late")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
				var shop shop
				h := httpmw.Exclusive(k, byName("account"), c.opts...)(&shop)
				if c.around != nil {
					h = c.around(h)
				}
				h = idempotent.Middleware(k, byUser)(h)
				release := hold(t, k, "account")
				for range 2 {
					w := answered(h, order(t.Context(), "k", "pen"))
					assert.Equal(t, c.status, w.Code)
					assert.Empty(t, w.Header().Get(idempotent.ReplayedHeader))
					assert.Empty(t, w.Header().Get("Lockbeat-Refused"), "between the guards only")
				}
				release()
				w := answered(h, order(t.Context(), "k", "pen"))
				assert.Equal(t, http.StatusCreated, w.Code)
				assert.EqualValues(t, 1, shop.taken.Load())
				w = answered(h, order(t.Context(), "k", "pen"))
				assert.Equal(t, http.StatusCreated, w.Code)
				assert.Equal(t, "true", w.Header().Get(idempotent.ReplayedHeader))
				assert.EqualValues(t, 1, shop.taken.Load())
			})
		})
	}
}

// A batch whose handler has asked others on its behalf has been carried out, also if one of them
// was refused.
func TestARefusalThatTheHandlerHasDealtWithIsStored(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		var shop shop
		busy := httpmw.Exclusive(k, byName("account"), httpmw.Refuse(409))(&shop)
		batch := idempotent.Middleware(k,
			byUser)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			part := httptest.NewRecorder()
			shop.ServeHTTP(part, r)
			part = httptest.NewRecorder()
			busy.ServeHTTP(part, r)
			assert.Equal(t, http.StatusConflict, part.Code)
			w.WriteHeader(http.StatusMultiStatus)
		}))
		release := hold(t, k, "account")
		assert.Equal(t, http.StatusMultiStatus,
			answered(batch, order(t.Context(), "k", "pen")).Code)
		release()
		assert.Equal(t, http.StatusMultiStatus,
			answered(batch, order(t.Context(), "k", "pen")).Code)
		assert.EqualValues(t, 1, shop.taken.Load(), "what the batch has done is not done again")
	})
}

// answering is a handler that answers with a status and headers, and counts.
func answering(runs *int, status *int, header ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		*runs++
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(*status)
		if *status != http.StatusNoContent {
			_, _ = io.WriteString(w, "answer")
		}
	})
}

// all is for handlers whose errors have effects.
func all(int) bool { return true }

// An error that names a time to come again is none to be told for a day. Work that was accepted is.
func TestAnErrorWithRetryAfterIsNotStored(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		for status, want := range map[int]int{400: 2, 404: 2, 409: 2, 503: 2, 202: 1, 303: 1} {
			runs := 0
			h := idempotent.Middleware(k, byUser,
				idempotent.KeepStatus(all))(answering(&runs, &status, "Retry-After", "3"))
			key := http.StatusText(status)[:3]
			for range 2 {
				w := answered(h, order(t.Context(), key, "pen"))
				assert.Equal(t, status, w.Code)
				assert.Equal(t, "3", w.Header().Get("Retry-After"))
			}
			assert.Equal(t, want, runs, "%d", status)
		}
	})
}

// An error says that nothing has been done, and is not stored.
func TestWhichStatusesAreFinal(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		for status, final := range map[int]bool{
			200: true, 201: true, 204: true, 302: true, 304: true, 399: true, 400: false,
			402: false, 403: false, 404: false, 409: false,
			412: false, 422: false, 401: false, 408: false, 421: false, 423: false, 425: false,
			428: false, 429: false, 500: false,
			501: false, 503: false, 599: false,
		} {
			runs := 0
			h := idempotent.Middleware(k, byUser)(answering(&runs, &status))
			r := order(t.Context(), "k", "pen")
			r.Header.Set("User", strconv.Itoa(status))
			assert.Equal(t, status, answered(h, r).Code)
			r = order(t.Context(), "k", "pen")
			r.Header.Set("User", strconv.Itoa(status))
			assert.Equal(t, final, answered(h, r).Header().Get(idempotent.ReplayedHeader) == "true",
				"%d", status)
		}
	})
}
