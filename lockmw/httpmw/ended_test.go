package httpmw_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

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
