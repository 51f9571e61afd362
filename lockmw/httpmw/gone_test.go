package httpmw_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
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
