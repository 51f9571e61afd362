package idempotent_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestInFlight(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		var shop shop
		slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			waitFor(time.Second)
			shop.ServeHTTP(w, r)
		})
		h := idempotent.Middleware(k, idempotent.Config{Caller: byUser})(slow)
		waits := idempotent.Middleware(k, idempotent.Config{Caller: byUser, WaitForAnswer: 3 * time.Second})(slow)
		var first *httptest.ResponseRecorder
		var wg sync.WaitGroup
		wg.Go(func() { first = answered(h, order(t.Context(), "k", "pen")) })
		synctest.Wait()
		busy := answered(h, order(t.Context(), "k", "pen"))
		assert.Equal(t, http.StatusConflict, busy.Code)
		assert.NotEmpty(t, busy.Header().Get("Retry-After"))
		assert.Contains(t, busy.Body.String(), "#busy")
		begun := time.Now()
		replayed := answered(waits, order(t.Context(), "k", "pen"))
		assert.Equal(t, "true", replayed.Header().Get("Idempotent-Replayed"))
		assert.Equal(t, time.Second, time.Since(begun))
		wg.Wait()
		assert.Equal(t, first.Body.String(), replayed.Body.String())
		assert.EqualValues(t, 1, shop.taken.Load())
	})
}

// An answer that was given although the lock was lost stands, unless another
// was first.
func TestLostWithAnAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		var h http.Handler
		runs := 0
		h = idempotent.Middleware(k, idempotent.Config{Caller: byUser})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			runs++
			if runs == 1 {
				s.Delete(names(s)[0])
				<-r.Context().Done()
				second := answered(h, order(context.WithoutCancel(t.Context()), "k", "pen"))
				assert.Equal(t, "run 2", second.Body.String())
				_, _ = w.Write([]byte("run 1"))
				return
			}
			_, _ = w.Write([]byte("run 2"))
		}))
		assert.Equal(t, "run 2", answered(h, order(t.Context(), "k", "pen")).Body.String())
		assert.Equal(t, 2, runs)
		assert.Equal(t, "run 2", answered(h, order(t.Context(), "k", "pen")).Body.String())
	})
}
