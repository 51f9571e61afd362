package idempotent_test

import (
	"bytes"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A handler that panics when its client leaves, as httputil.ReverseProxy does,
// was carried out once more for each request that followed, though its answer
// had begun to go out.
func TestAClientThatLeftWithinALargeAnswerRanItAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		for status, want := range map[int]int{http.StatusOK: 1, http.StatusBadGateway: 2} {
			runs := 0
			h := idempotent.Middleware(k, idempotent.Config{Caller: byUser})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
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
