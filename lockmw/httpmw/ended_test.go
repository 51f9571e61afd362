package httpmw_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A handler that panics when its client leaves, as httputil.ReverseProxy does, was carried out once
// more for each request that followed, though its answer had begun to go out.
func TestAClientThatLeftWithinALargeAnswerRanItAgain(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		for status, want := range map[int]int{http.StatusOK: 1, http.StatusBadGateway: 2} {
			runs := 0
			h := httpmw.Idempotent(k,
				byUser)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				runs++
				w.WriteHeader(status)
				_, err := w.Write(bytes.Repeat([]byte("x"), 2*httpmw.DefaultMaxAnswer))
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

// A lock further in is lost when the handler has answered. The 503 that nobody gets marked the
// handler's answer as a refusal, where http.TimeoutHandler kept the headers until the end.
func TestALossAfterTheAnswerRanItAgain(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		runs := 0
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			runs++
			ok(w, r)
			s.Delete("inner")
			<-r.Context().Done()
		})
		h := httpmw.Idempotent(k,
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

// Requests that are under way count, too: a caller that sends many at once took as much more.
func TestRequestsAtOnceKeepToTheQuota(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		finish := make(chan struct{})
		h := httpmw.Idempotent(k, byUser,
			httpmw.MaxStored(10*httpmw.DefaultMaxAnswer))(http.HandlerFunc(
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

// Several names are each one's own, also without their locks.
func TestFailOpenTakesEachOfSeveralNames(t *testing.T) {
	t.Parallel()
	inOutage(t, func(t *testing.T, k *renewer.Keeper, _ *script.Store, o *unlockedObserver) {
		finish := make(chan struct{})
		shared := newShared(k, finish)
		var first sync.WaitGroup
		first.Go(func() { assert.Equal(t, "done", shared("a", "c").body) })
		synctest.Wait()
		for _, names := range [][]string{{"a"}, {"b", "a"}, {"c"}} {
			requireProblem(t, shared(names...), http.StatusServiceUnavailable,
				httpmw.TypeUnavailable)
		}
		close(finish)
		first.Wait()
		assert.Equal(t, "done", shared("b", "a").body)
		var told []string
		for _, e := range o.heard {
			told = append(told, e.Name)
		}
		assert.Equal(t, []string{"a", "c", "a", "b"}, told)
	})
}

// newShared returns a way to ask one handler for names.
func newShared(k *renewer.Keeper, finish <-chan struct{}) func(names ...string) answer {
	byHeader := func(r *http.Request) (string, error) {
		return lockmw.Keys(r.Header.Values("X")...), nil
	}
	h := httpmw.Exclusive(k, byHeader, httpmw.Refuse(409),
		httpmw.FailOpen(9))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-finish
		ok(w, r)
	}))
	return func(names ...string) answer {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody) //nolint:noctx // a bubble's
		for _, name := range names {
			r.Header.Add("X", name)
		}
		return do(h, r)
	}
}

// HTTP/2's responses without a body have one that is not http.NoBody.
func TestAResponseWithoutABodyKeptTheLockOnHTTP2(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	rt := httpmw.Transport(s.Client().Transport, k, byName("a"))
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL, http.NoBody)
		require.NoError(t, err)
		res, err := rt.RoundTrip(r) //nolint:bodyclose // that is the point
		require.NoError(t, err)
		assert.Equal(t, 2, res.ProtoMajor)
		assert.Empty(t, store.Owner("a"), method)
	}
}
