package httpmw_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// crowd sends n requests, and returns when all of them wait. The function that
// it returns waits for their answers.
func crowd(t *testing.T, n int, h http.Handler, request func() *http.Request) (answered func()) {
	t.Helper()
	var all sync.WaitGroup
	for range n {
		r := request()
		r = r.WithContext(context.WithoutCancel(r.Context())) // also when the test has failed
		all.Go(func() { assert.Equal(t, http.StatusOK, do(h, r).StatusCode) })
	}
	synctest.Wait()
	return all.Wait
}

// Any number of requests could wait for one lock, and the next client's behind
// them.
func TestALineHadNoEnd(t *testing.T) {
	t.Parallel()
	for bound, opts := range map[int][]httpmw.Option{100: nil, 150: {lockmw.MaxWaiters(150)}} {
		inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
			h := httpmw.Middleware(k, byName("a"), opts...)(http.HandlerFunc(ok))
			release := hold(t, k, "a")
			answered := crowd(t, bound, h, func() *http.Request { return get(t, "/") })
			begun := time.Now()
			a := do(h, get(t, "/"))
			p := requireProblem(t, a, http.StatusServiceUnavailable, httpguard.TypeBusy)
			assert.Contains(t, p.Detail, "Too many")
			requireRetryAfter(t, a, 1, 2)
			assert.Zero(t, time.Since(begun))
			release()
			answered()
		})
	}
}

// One client can't fill the places of those that wait, by whatever names.
func TestOneClientFilledTheLine(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		var got error
		h := httpmw.Middleware(k, byHeader,
			httpmw.MaxWaitersPerClient(3, byUser),
			httpmw.OnRefused(func(w http.ResponseWriter, r *http.Request, err error) {
				got = err
				httpmw.Respond(w, r, err)
			}))(http.HandlerFunc(ok))
		of := func(user, key string) *http.Request {
			r := get(t, "/")
			r.Header.Set("User", user)
			r.Header.Set("Key", key)
			return r
		}
		a, b := hold(t, k, "a"), hold(t, k, "b")
		behindA := crowd(t, 2, h, func() *http.Request { return of("eve", "a") })
		behindB := crowd(t, 1, h, func() *http.Request { return of("eve", "b") })
		begun := time.Now()
		refused := do(h, of("eve", "free"))
		p := requireProblem(t, refused, http.StatusTooManyRequests, httpguard.TypeTooMany)
		assert.Contains(t, p.Detail, "of this client")
		requireRetryAfter(t, refused, 1, 2)
		require.ErrorContains(t, got, "too many requests of one client")
		assert.Zero(t, time.Since(begun))
		assert.NotContains(t, names(s), "free")
		assert.Equal(t, "done", do(h, of("ann", "free")).Text, "another client")
		others := crowd(t, 3, h, func() *http.Request { return of("bob", "a") })

		b()
		behindB()
		assert.Equal(t, "done", do(h, of("eve", "free")).Text, "with one waiting less")
		a()
		behindA()
		others()
		for range 5 {
			assert.Equal(t, "done", do(h, of("eve", "a")).Text, "none is waiting")
		}
	})
}

// A request that runs does not count, nor one whose client left.
func TestOnlyWaitingCountsForAClient(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		finish := make(chan struct{})
		h := httpmw.Wrap(k, byAccount, func(w http.ResponseWriter, r *http.Request, _ transfer) {
			<-finish
			ok(w, r)
		}, httpmw.MaxWaitersPerClient(1, eve))
		var answered []func()
		for _, account := range []string{"7", "8", "9"} {
			answered = append(answered, crowd(t, 1, h, func() *http.Request {
				return post(t, `{"Account":"`+account+`"}`)
			}))
		}
		close(finish)
		for _, wait := range answered {
			wait()
		}
	})
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		defer hold(t, k, "a")()
		h := httpmw.Middleware(k, byName("a"), lockmw.Wait(time.Second),
			httpmw.MaxWaitersPerClient(1, eve))(never(t))
		for range 3 {
			requireProblem(t, do(h, get(t, "/")), http.StatusServiceUnavailable, httpguard.TypeBusy)
		}
	})
}

func byUser(r *http.Request) string { return r.Header.Get("User") }

func eve(*http.Request) string { return "eve" }

func nobody(*http.Request) string { return "" }
