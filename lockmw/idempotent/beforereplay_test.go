package idempotent_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
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

// roles lets those through that have a role.
type roles map[string]bool

func (a roles) check(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a[r.Header.Get("User")] {
			http.Error(w, "not allowed", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// The handler checks who may order. A replay goes without the handler: a caller whose rights had
// been revoked was sent what it had been answered before.
func TestARevokedCallerGetsNoReplay(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		allowed := roles{"ann": true}
		var shop shop
		h := idempotent.Middleware(k, byUser,
			idempotent.BeforeReplay(allowed.check))(allowed.check(&shop))
		assert.Equal(t, http.StatusCreated, answered(h, order(t.Context(), "k", "pen")).Code)
		again := answered(h, order(t.Context(), "k", "pen"))
		assert.Equal(t, "order 1: pen", again.Body.String())
		assert.Equal(t, "true", again.Header().Get(idempotent.ReplayedHeader))

		allowed["ann"] = false
		again = answered(h, order(t.Context(), "k", "pen"))
		assert.Equal(t, http.StatusForbidden, again.Code)
		assert.Equal(t, "not allowed\n", again.Body.String())
		assert.Empty(t, again.Header().Get("Location"), "which is the stored answer's")
		assert.Empty(t, again.Header().Get(idempotent.ReplayedHeader))

		allowed["ann"] = true
		assert.Equal(t, "order 1: pen", answered(h, order(t.Context(), "k", "pen")).Body.String())
		assert.EqualValues(t, 1, shop.taken.Load())
	})
}

// Nor does it learn which keys are known, or being carried out.
func TestARevokedCallerLearnsNothingOfKeys(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		allowed := roles{"ann": true}
		var shop shop
		h := idempotent.Middleware(k, byUser, idempotent.MaxAnswer(200),
			idempotent.BeforeReplay(allowed.check))(allowed.check(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ContentLength == 4 {
					waitFor(time.Minute)
				}
				shop.ServeHTTP(w, r)
			})))
		large := strings.Repeat("pen", 100)
		answered(h, order(t.Context(), "known", "pen"))
		answered(h, order(t.Context(), "large", large))
		var wg sync.WaitGroup
		wg.Go(func() { answered(h, order(t.Context(), "in-flight", "slow")) })
		synctest.Wait()
		told := func() (codes []int) {
			for _, r := range []*http.Request{
				order(t.Context(), "known", "ink"), order(t.Context(), "large", large),
				order(t.Context(), "in-flight", "slow"),
				order(t.Context(), "new", "pen"),
			} {
				codes = append(codes, answered(h, r).Code)
			}
			return codes
		}
		allowed["ann"] = false
		assert.Equal(t, []int{403, 403, 403, 403}, told())
		allowed["ann"] = true
		assert.Equal(t, []int{422, 409, 409, 201}, told())
		wg.Wait()
	})
}

// Whatever the middleware does, nothing of the stored answer goes out but through it.
func TestMiddlewareBeforeReplays(t *testing.T) {
	t.Parallel()
	type middleware = func(http.Handler) http.Handler
	replaced := func(edit func(w http.ResponseWriter, r *http.Request) (http.ResponseWriter,
		*http.Request),
	) middleware {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(edit(w, r))
			})
		}
	}
	doing := func(f func()) middleware {
		return func(http.Handler) http.Handler {
			return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { f() })
		}
	}
	for name, c := range map[string]struct {
		mw       middleware
		replayed bool
	}{
		"panics": {mw: doing(func() { panic("boom") })},
		"exits":  {mw: doing(runtime.Goexit)},
		"silent": {mw: doing(func() {})},
		"another writer": {
			replayed: true,
			mw: replaced(func(w http.ResponseWriter, r *http.Request) (http.ResponseWriter,
				*http.Request,
			) {
				return struct{ http.ResponseWriter }{w}, r
			}),
		},
		"a writer that goes nowhere": {mw: replaced(func(_ http.ResponseWriter,
			r *http.Request,
		) (http.ResponseWriter, *http.Request) {
			return httptest.NewRecorder(), r
		})},
		"a request made of it": {
			replayed: true,
			mw: replaced(func(w http.ResponseWriter, r *http.Request) (http.ResponseWriter,
				*http.Request,
			) {
				return w, r.Clone(context.WithValue(r.Context(), http.ServerContextKey, nil))
			}),
		},
		"a request made anew": {mw: replaced(func(w http.ResponseWriter,
			_ *http.Request,
		) (http.ResponseWriter, *http.Request) {
			return w, httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/",
				http.NoBody)
		})},
		"reads the body": {
			replayed: true,
			mw: replaced(func(w http.ResponseWriter, r *http.Request) (http.ResponseWriter,
				*http.Request,
			) {
				body, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				assert.Equal(t, "pen", string(body))
				return w, r
			}),
		},
		"a TimeoutHandler": {replayed: true, mw: func(h http.Handler) http.Handler {
			return http.TimeoutHandler(h, time.Minute, "late")
		}},
		"a lock": {replayed: true, mw: nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, _ := scripted(t)
			if c.mw == nil {
				c.mw = httpmw.Exclusive(k, byName("account"))
			}
			var shop shop
			h := idempotent.Middleware(k, byUser, idempotent.BeforeReplay(c.mw))(&shop)
			assert.Equal(t, "order 1: pen",
				answered(h, order(t.Context(), "k", "pen")).Body.String(), "the handler is not "+
					"behind it")
			w := httptest.NewRecorder()
			var wg sync.WaitGroup
			wg.Go(func() {
				defer func() { _ = recover() }()
				h.ServeHTTP(w, order(t.Context(), "k", "pen"))
			})
			wg.Wait()
			assert.Equal(t, c.replayed, w.Header().Get(idempotent.ReplayedHeader) == "true")
			assert.Equal(t, c.replayed, strings.Contains(w.Body.String(), "order 1"))
			assert.Equal(t, c.replayed, w.Header().Get("Location") != "")
			assert.EqualValues(t, 1, shop.taken.Load())
		})
	}
}

// Middleware that loses the request's context is told of: no replay can go through it.
func TestMiddlewareThatLosesTheRequestIsToldOf(t *testing.T) {
	t.Parallel()
	k, o := observed(t)
	mw := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			next.ServeHTTP(w, order(t.Context(), "k", "pen"))
		})
	}
	h := idempotent.Middleware(k, byUser, idempotent.BeforeReplay(mw))(http.HandlerFunc(ok))
	answered(h, order(t.Context(), "k", "pen"))
	requireProblem(t, do(h, order(t.Context(), "k", "pen")), http.StatusInternalServerError,
		"about:blank")
	errs := o.errs(t)
	require.Len(t, errs, 1)
	assert.Contains(t, errs[0], "BeforeReplay")
}

// What is replayed since another request has taken over goes through it too, with the body.
func TestAnOvertakenRequestIsCheckedAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		var h http.Handler
		var checked []string
		runs := 0
		h = idempotent.Middleware(k, byUser,
			idempotent.BeforeReplay(func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					assert.NoError(t, err)
					checked = append(checked, string(body))
					next.ServeHTTP(w, r)
				})
			}))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			runs++
			if runs == 1 {
				s.Delete(names(s)[0])
				<-r.Context().Done()
				answered(h, order(context.WithoutCancel(t.Context()), "k", "pen"))
				_, _ = w.Write([]byte("run 1"))
				return
			}
			_, _ = w.Write([]byte("run 2"))
		}))
		assert.Equal(t, "run 2", answered(h, order(t.Context(), "k", "pen")).Body.String())
		assert.Equal(t, []string{"pen"}, checked)
	})
}
