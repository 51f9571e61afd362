package httpmw_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// The response does not wait for a release in the background.
func TestReleaseInBackground(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Default(script.Release, script.Pass().Slow(100*time.Millisecond))
		h := httpmw.Exclusive(k, httpmw.Header("X-Account"), httpmw.ReleaseInBackground())(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNoContent)
			}))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		r.Header.Set("X-Account", "a")
		answer, begun := httptest.NewRecorder(), time.Now()
		h.ServeHTTP(answer, r)
		require.Equal(t, http.StatusNoContent, answer.Code)
		require.Equal(t, begun, time.Now())
		synctest.Wait()
		require.Len(t, s.Calls(script.Release), 1)
	})
}
