package idempotent_test

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// One caller's answers, of 66 kB each for a day, filled a Redis that evicts nothing, and so ended
// the locks of all.
func TestACallerFillsItsOwnQuotaOnly(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		var shop shop
		h := idempotent.Middleware(k, byUser, idempotent.MaxStored(1<<20))(&shop)
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
		assert.Contains(t, w.Body.String(), "TypeQuota")
		assert.NotContains(t, w.Body.String(), "ann")
		assert.Equal(t, taken, shop.taken.Load(), "the handler has not run")
		all := names(s)
		assert.Empty(t, s.RecordOf(all[len(all)-1]), "nor is anything stored")
		assert.Equal(t, "true",
			answered(h, order(t.Context(), "0", large)).Header().Get(
				idempotent.ReplayedHeader,
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

// Answers that are not stored count for nothing, and those that are too large for it for little.
func TestWhatCountsForTheQuota(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status, size, most int
	}{
		"not stored": {404, 10, math.MaxInt},
		"short":      {200, 10, 15},
		"too large":  {200, 50_000, 17},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
				h := idempotent.Middleware(k, byUser,
					idempotent.MaxStored(10_000))(http.HandlerFunc(func(w http.ResponseWriter,
					_ *http.Request,
				) {
					w.WriteHeader(c.status)
					_, _ = w.Write(make([]byte, c.size))
				}))
				for i := range 20 {
					w := answered(h, order(t.Context(), strconv.Itoa(i), "pen"))
					want := c.status
					if i >= c.most {
						want = http.StatusTooManyRequests
					}
					require.Equal(t, want, w.Code, "%d", i)
				}
			})
		})
	}
}

// A responder can tell it from other errors, and all handlers of one middleware share the quota.
func TestTheQuotaIsOfTheMiddleware(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		var told []error
		once := idempotent.Middleware(k, byUser, idempotent.MaxStored(1),
			idempotent.OnError(func(w http.ResponseWriter, r *http.Request, err error) {
				told = append(told, err)
				httpmw.Respond(w, r, err)
			}))
		assert.Equal(t, http.StatusOK,
			answered(once(http.HandlerFunc(ok)), order(t.Context(), "a", "pen")).Code)
		assert.Equal(t, http.StatusTooManyRequests,
			answered(once(http.HandlerFunc(ok)), order(t.Context(), "b", "pen")).Code)
		require.Len(t, told, 1)
		require.ErrorIs(t, told[0], idempotent.ErrQuota)
		var e *httpmw.Error
		require.ErrorAs(t, told[0], &e)
		assert.NotContains(t, fmt.Sprint(e), "ann")
	})
}

// Requests that are under way count, too: a caller that sends many at once took as much more.
func TestRequestsAtOnceKeepToTheQuota(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		finish := make(chan struct{})
		h := idempotent.Middleware(k, byUser,
			idempotent.MaxStored(10*idempotent.DefaultMaxAnswer))(http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				<-finish
				ok(w, r)
			}))
		var sent sync.WaitGroup
		var mu sync.Mutex
		codes := map[int]int{}
		for i := range 100 {
			sent.Go(func() {
				a := answered(h, order(t.Context(), time.Duration(i).String(), "pen"))
				mu.Lock()
				defer mu.Unlock()
				codes[a.Code]++
			})
		}
		synctest.Wait()
		close(finish)
		sent.Wait()
		assert.Equal(t, map[int]int{http.StatusOK: 10, http.StatusTooManyRequests: 90}, codes)
		assert.Equal(t, http.StatusOK, answered(h, order(t.Context(), "next", "pen")).Code,
			"they took little in the end")
	})
}
