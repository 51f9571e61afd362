package httpmw_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// ending tells when a handler has ended, and how.
func ending(next http.Handler) (http.Handler, <-chan any) {
	ended := make(chan any, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			ended <- v
			if v != nil {
				panic(v)
			}
		}()
		next.ServeHTTP(w, r)
	}), ended
}

func within[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(soon):
		require.FailNow(t, "nothing has happened")
	}
	return v
}

// awaitWaiter waits until a request waits for a lock that another process has.
func awaitWaiter(t *testing.T, s *script.Store, name string) {
	t.Helper()
	assert.Eventually(t, func() bool { return s.Watchers(name) > 0 }, soon, tick)
}

func TestClientGoneWhileItWaits(t *testing.T) {
	t.Parallel()
	for proto, edit := range protocols {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			k, store := scripted(t)
			store.Default(script.Acquire, script.Taken(contract.Holder{}, time.Minute))
			h, ended := ending(httpmw.Middleware(k, byName("a"), lockmw.Wait(time.Hour))(never(t)))
			s := serve(t, h, edit)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				awaitWaiter(t, store, "a")
				cancel()
			}()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, http.NoBody)
			require.NoError(t, err)
			res, err := s.Client().Do(req)
			if err == nil {
				_ = res.Body.Close()
			}
			require.ErrorIs(t, err, context.Canceled)
			assert.Nil(t, within(t, ended), "no panic")
			assert.Zero(t, store.Watchers("a"))
		})
	}
}

// A client that left was a panic, which gin.Recovery logged, and of which
// others made a 500.
func TestAClientThatHasGoneIsNoPanic(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, h := range []http.Handler{
		httpmw.Middleware(k, byName("a"))(never(t)),
		httpmw.Middleware(k, byHeader)(never(t)),
		httpmw.Wrap(k, byAccount, func(http.ResponseWriter, *http.Request, transfer) {
			assert.Fail(t, "it ran")
		}),
	} {
		requireProblem(t, do(h, post(t, "{").WithContext(ctx)), http.StatusServiceUnavailable,
			httpguard.TypeTimeout)
	}
	assert.Empty(t, store.Owner("a"))
}

// A body that has been read by then lets the server notice.
func TestClientGoneWithItsBodyRead(t *testing.T) {
	t.Parallel()
	for name, guard := range map[string]func(k *renewer.Keeper) http.Handler{
		"Middleware": func(k *renewer.Keeper) http.Handler {
			return httpmw.Middleware(k, byName("7"), lockmw.Wait(time.Hour))(never(t))
		},
		"Handle": func(k *renewer.Keeper) http.Handler {
			return httpmw.Wrap(k, byAccount, func(http.ResponseWriter, *http.Request, transfer) {
				assert.Fail(t, "it ran")
			}, lockmw.Wait(time.Hour))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, store := scripted(t)
			store.Default(script.Acquire, script.Taken(contract.Holder{}, time.Minute))
			h, ended := ending(guard(k))
			conn, _ := raw(t, serve(t, h),
				"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 15\r\n\r\n{\"Account\":\"7\"}")
			awaitWaiter(t, store, "7")
			require.NoError(t, conn.Close())
			assert.Nil(t, within(t, ended), "no panic")
		})
	}
}

// The client is there, but the server's own context has ended: no empty 200.
func TestServerThatCancelsItsRequests(t *testing.T) {
	t.Parallel()
	for proto, edit := range protocols {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			k, store := scripted(t)
			store.Default(script.Acquire, script.Taken(contract.Holder{}, time.Minute))
			base, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
			defer cancel()
			s := serve(t, httpmw.Middleware(k, byName("a"), lockmw.Wait(time.Hour))(never(t)), edit,
				func(s *httptest.Server) {
					s.Config.BaseContext = func(net.Listener) context.Context { return base }
				})
			go func() {
				awaitWaiter(t, store, "a")
				cancel()
			}()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody)
			require.NoError(t, err)
			res, err := s.Client().Do(req)
			require.NoError(t, err)
			requireProblem(t, read(res), http.StatusServiceUnavailable, httpguard.TypeTimeout)
			require.NoError(t, res.Body.Close())
		})
	}
}
