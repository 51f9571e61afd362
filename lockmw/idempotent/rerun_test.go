package idempotent_test

import (
	"bytes"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A handler that panics when its client leaves, as httputil.ReverseProxy does, was carried out once
// more for each request that followed, though its answer had begun to go out.
func TestAClientThatLeftWithinALargeAnswerRanItAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		for status, want := range map[int]int{http.StatusOK: 1, http.StatusBadGateway: 2} {
			runs := 0
			h := idempotent.Middleware(k,
				byUser)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				runs++
				w.WriteHeader(status)
				_, err := w.Write(bytes.Repeat([]byte("x"), 2*maxAnswer))
				assert.NoError(t, err)
				panic(http.ErrAbortHandler)
			}))
			key := strconv.Itoa(status)
			assert.PanicsWithValue(t, http.ErrAbortHandler, func() {
				answered(h, order(t.Context(), key, "pen"))
			})
			if want == 1 {
				assert.Equal(t, http.StatusConflict,
					answered(h, order(t.Context(), key, "pen")).Code)
			} else {
				assert.Panics(t, func() { answered(h, order(t.Context(), key, "pen")) })
			}
			assert.Equal(t, want, runs, key)
		}
	})
}

// A lock further in is lost when the handler has answered. The 503 that no client gets marked the
// handler's answer as a refusal, where http.TimeoutHandler kept the headers until the end.
func TestALossAfterTheAnswerRanItAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		runs := 0
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			runs++
			ok(w, r)
			s.Delete("inner")
			<-r.Context().Done()
		})
		h := idempotent.Middleware(k,
			byUser)(http.TimeoutHandler(httpmw.Exclusive(k, byName("inner"))(handler), time.Hour,
			""))
		for range 3 {
			a := answered(h, order(t.Context(), "k", "pen"))
			assert.Equal(t, "done", a.Body.String())
			assert.Empty(t, a.Header().Get("Retry-After"))
		}
		assert.Equal(t, 1, runs)
	})
}
