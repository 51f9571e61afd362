package idempotent_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A refusal of ours is no answer of the handler, which has not run: whatever
// its status, the next request with the key runs.
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
		"409":                    {status: 409, opts: []httpmw.Option{lockmw.Refuse()}},
		"skipped":                {status: 204, opts: []httpmw.Option{lockmw.Skip()}},
		"wait ran out":           {status: 503, opts: []httpmw.Option{lockmw.Wait(time.Second)}},
		"a responder of its own": {status: 200, opts: []httpmw.Option{lockmw.Refuse(), answers}},
		"behind a TimeoutHandler": {
			status: 409, opts: []httpmw.Option{lockmw.Refuse()},
			around: func(h http.Handler) http.Handler {
				return http.TimeoutHandler(h, time.Minute, "late")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
				var shop shop
				h := httpmw.Middleware(k, byName("account"), c.opts...)(&shop)
				if c.around != nil {
					h = c.around(h)
				}
				h = idempotent.Middleware(k, idempotent.Config{Caller: byUser})(h)
				release := hold(t, k, "account")
				for range 2 {
					w := answered(h, order(t.Context(), "k", "pen"))
					assert.Equal(t, c.status, w.Code)
					assert.Empty(t, w.Header().Get("Idempotent-Replayed"))
					assert.Empty(t, w.Header().Get("Lockbeat-Refused"), "between the guards only")
				}
				release()
				w := answered(h, order(t.Context(), "k", "pen"))
				assert.Equal(t, http.StatusCreated, w.Code)
				assert.EqualValues(t, 1, shop.taken.Load())
				w = answered(h, order(t.Context(), "k", "pen"))
				assert.Equal(t, http.StatusCreated, w.Code)
				assert.Equal(t, "true", w.Header().Get("Idempotent-Replayed"))
				assert.EqualValues(t, 1, shop.taken.Load())
			})
		})
	}
}

// An answer that was written before the lock further in was lost is the
// handler's, and no refusal: what it did is not done again.
func TestAnAnswerBeforeALossFurtherInIsStored(t *testing.T) {
	t.Parallel()
	for name, around := range map[string]func(http.Handler) http.Handler{
		"at once": func(h http.Handler) http.Handler { return h },
		"by a writer that takes headers late": func(h http.Handler) http.Handler {
			return http.TimeoutHandler(h, time.Hour, "late")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				var shop shop
				h := idempotent.Middleware(k, idempotent.Config{Caller: byUser})(around(
					httpmw.Middleware(k, byName("account"))(http.HandlerFunc(
						func(w http.ResponseWriter, r *http.Request) {
							shop.ServeHTTP(w, r)
							s.Delete("account")
							<-r.Context().Done()
						}))))
				for range 2 {
					w := answered(h, order(t.Context(), "k", "pen"))
					assert.Equal(t, http.StatusCreated, w.Code)
				}
				assert.EqualValues(t, 1, shop.taken.Load())
			})
		})
	}
}

// A batch whose handler has asked others on its behalf has been carried out,
// also if one of them was refused.
func TestARefusalThatTheHandlerHasDealtWithIsStored(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		var shop shop
		busy := httpmw.Middleware(k, byName("account"), lockmw.Refuse())(&shop)
		batch := idempotent.Middleware(k, idempotent.Config{Caller: byUser})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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

// An error says that nothing has been done, and is not stored, unless
// KeepStatus says so. One that names a time to come again is none to be told
// for a day. Work that was accepted is.
func TestWhichStatusesAreFinal(t *testing.T) {
	t.Parallel()
	all := func(int) bool { return true }
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		for status, kept := range map[int]struct{ byDefault, all, again bool }{
			200: {true, true, true}, 202: {true, true, true}, 204: {true, true, true},
			303: {true, true, true}, 399: {true, true, true}, 400: {false, true, false},
			402: {false, true, false}, 404: {false, true, false}, 409: {false, true, false},
			422: {false, true, false}, 429: {false, true, false}, 500: {false, true, false},
			503: {false, true, false}, 599: {false, true, false},
		} {
			replayed := func(name string, h http.Handler, keep func(int) bool) bool {
				h = idempotent.Middleware(k, idempotent.Config{
					Caller: byName(name + strconv.Itoa(status)), KeepStatus: keep,
				})(h)
				assert.Equal(t, status, answered(h, order(t.Context(), "k", "pen")).Code)
				again := answered(h, order(t.Context(), "k", "pen"))
				assert.Equal(t, status, again.Code)
				final := again.Header().Get("Idempotent-Replayed") == "true"
				last := names(s)[len(names(s))-1]
				assert.Equal(t, final, s.RecordOf(last) != "", "what is not stored leaves nothing")
				return final
			}
			runs := 0
			plain := answering(&runs, &status)
			retry := answering(&runs, &status, "Retry-After", "3")
			assert.Equal(t, kept.byDefault, replayed("default", plain, nil), status)
			assert.Equal(t, kept.all, replayed("all", plain, all), status)
			assert.Equal(t, kept.again, replayed("again", retry, all), status)
		}
	})
}
