package idempotent_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// One caller's answers, of 66 kB each for a day, filled a Redis that evicts
// nothing, and so ended the locks of all.
func TestACallerFillsItsOwnQuotaOnly(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		var shop shop
		h := idempotent.Middleware(k, idempotent.Config{Caller: byUser, MaxStored: 1 << 20})(&shop)
		large := strings.Repeat("x", 45_000) // 60 kB when it is stored
		stored := 0
		for ; answered(h, order(t.Context(), strconv.Itoa(stored),
			large)).Code == http.StatusCreated; stored++ {
			require.Less(t, stored, 100)
		}
		assert.Equal(t, 18, stored)

		taken := shop.taken.Load()
		w := answered(h, order(t.Context(), "new", large))
		assert.Equal(t, http.StatusTooManyRequests, w.Code)
		assert.Contains(t, w.Body.String(), "#quota")
		assert.NotContains(t, w.Body.String(), "ann")
		assert.Equal(t, taken, shop.taken.Load(), "the handler has not run")
		all := names(s)
		assert.Empty(t, s.RecordOf(all[len(all)-1]), "nor is anything stored")
		assert.Equal(t, "true",
			answered(h, order(t.Context(), "0", large)).Header().Get(
				"Idempotent-Replayed",
			), "known keys are replayed")
		assert.Equal(t, http.StatusUnprocessableEntity,
			answered(h, order(t.Context(), "0", "pen")).Code)
		bob := order(t.Context(), "new", large)
		bob.Header.Set("User", "bob")
		assert.Equal(t, http.StatusCreated, answered(h, bob).Code, "another caller has its own")

		wait, err := strconv.Atoi(w.Header().Get("Retry-After"))
		require.NoError(t, err)
		waitFor(time.Duration(wait-2) * time.Second)
		assert.Equal(t, http.StatusTooManyRequests,
			answered(h, order(t.Context(), "new", large)).Code)
		waitFor(2 * time.Second)
		assert.Equal(t, http.StatusCreated, answered(h, order(t.Context(), "new", large)).Code,
			"when it was told to come")
	})
}
