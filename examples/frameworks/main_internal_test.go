package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	goleak.VerifyTestMain(m)
}

type framework struct {
	name   string
	server func(*renewer.Keeper, work, ...httpmw.Option) http.Handler
}

var frameworks = []framework{{"gin", withGin}, {"echo", withEcho}}

func newKeeper(t *testing.T, store renewer.Store) *renewer.Keeper {
	t.Helper()
	k, err := renewer.New(store, renewer.Config{TTL: renewer.DefaultTTL})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, k.Shutdown(context.WithoutCancel(t.Context()))) })
	return k
}

func TestStory(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	tell(&out, newKeeper(t, memory.New()))
	assert.Equal(t, `gin   meanwhile, account 7:     409 application/problem+json
gin   account 7:                200 text/plain; charset=utf-8
gin   an account without money: 422 application/json; charset=utf-8
echo  meanwhile, account 7:     409 application/problem+json
echo  account 7:                200 text/plain; charset=UTF-8
echo  an account without money: 422 application/json
`, out.String())
}

// The wildcard names the lock, and the handler runs under it.
func TestTheWildcardNamesTheLock(t *testing.T) {
	t.Parallel()
	for _, f := range frameworks {
		answer := transfer(f.server(newKeeper(t, memory.New()), func(ctx context.Context,
			account string,
		) error {
			assert.True(t, lockmw.Held(ctx, "account:"+account))
			return nil
		}), "7")
		assert.Equal(t, http.StatusOK, answer.Code, f.name)
		assert.Equal(t, "from 7", answer.Body.String(), f.name)
	}
}

// A handler whose lock is lost returns without an answer: there is one, the
// guard's.
func TestALostLockIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	for _, f := range frameworks {
		synctest.Test(t, func(t *testing.T) {
			store := script.New()
			store.Default(script.Renew, script.Gone())
			server := f.server(newKeeper(t, store), func(ctx context.Context, _ string) error {
				<-ctx.Done()
				return context.Cause(ctx)
			}, lockmw.Strict())
			answer := transfer(server, "7")
			assert.Equal(t, http.StatusServiceUnavailable, answer.Code, f.name)
			assert.Equal(t, 1, strings.Count(answer.Body.String(), "{"), answer.Body)
			assert.Contains(t, answer.Body.String(), "#lost")
		})
	}
}

// A guard is made when the program starts, and not for each request, and it
// sees what a handler writes.
func TestTheGuardIsMadeOnceAndSeesTheAnswer(t *testing.T) {
	t.Parallel()
	made, seen := 0, 0
	server := serveEcho(func(next http.Handler) http.Handler {
		made++
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(&counted{w, &seen}, r)
		})
	})
	for range 3 {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/",
			http.NoBody))
		assert.Equal(t, "abc", w.Body.String())
		assert.True(t, w.Flushed)
	}
	assert.Equal(t, 1, made)
	assert.Equal(t, 9, seen)
}

// counted counts the bytes of answers.
type counted struct {
	http.ResponseWriter

	bytes *int
}

func (c *counted) Write(data []byte) (int, error) {
	*c.bytes += len(data)
	return c.ResponseWriter.Write(data)
}

func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func serveEcho(guard func(http.Handler) http.Handler) http.Handler {
	router := echo.New()
	router.GET("/", func(c echo.Context) error {
		c.Response().Flush()
		return c.String(http.StatusOK, "abc")
	}, echoGuard(guard))
	return router
}
