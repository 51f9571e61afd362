package ginmw_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/webtest"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/ginmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// post calls a handler directly.
func post(t *testing.T, h http.Handler) webtest.Answer {
	t.Helper()
	return webtest.Do(h, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path,
		http.NoBody))
}

// All handlers behind the lock run under it, and middleware further out does
// not.
func TestLaterHandlersHaveTheLock(t *testing.T) {
	t.Parallel()
	k, store := webtest.Scripted(t)
	handlers := 0
	held := func(c *gin.Context) {
		handlers++
		assert.True(t, lockmw.Held(c.Request.Context(), "account:7"))
		assert.Positive(t, lockmw.Fence(c.Request.Context()))
		assert.Equal(t, "7", c.Request.PathValue("id"))
	}
	a := post(t, route(
		func(c *gin.Context) {
			before := c.Request
			writer := c.Writer
			c.Next()
			assert.Same(t, before, c.Request)
			assert.Same(t, writer, c.Writer)
			assert.Equal(t, http.StatusCreated, c.Writer.Status())
			assert.Equal(t, 4, c.Writer.Size())
			assert.False(t, c.IsAborted(), "it ran")
			assert.Empty(t, store.Owner("account:7"))
		},
		ginmw.Middleware(k, accountLock),
		held,
		func(c *gin.Context) {
			held(c)
			c.String(http.StatusCreated, "done")
		},
	))
	assert.Equal(t, 2, handlers)
	assert.Equal(t, http.StatusCreated, a.StatusCode)
	assert.Equal(t, "done", a.Text)
	assert.Equal(t, []string{"account:7"}, webtest.Names(store))
	claim := store.Calls(script.Acquire)[0].Claims[0]
	assert.Equal(t, "POST /accounts/:id/transfer", claim.Holder.Operation)
}

// What an earlier handler has learned of the caller can name the lock, and
// options of httpmw count.
func TestARefusedRequestRunsNoHandler(t *testing.T) {
	t.Parallel()
	k, _ := webtest.Scripted(t)
	release := webtest.Hold(t, k, "user:alice")
	defer release()
	outer := false
	a := post(t, route(
		func(c *gin.Context) {
			c.Set("user", "alice")
			c.Next()
			outer = c.IsAborted()
		},
		ginmw.Middleware(k, func(c *gin.Context) string { return lockmw.Key("user", c.GetString("user")) }, lockmw.Refuse()),
		func(*gin.Context) { assert.Fail(t, "it ran without the lock") },
	))
	webtest.RequireProblem(t, a, http.StatusConflict,
		"https://pkg.go.dev/github.com/lockbeat/lockbeat/lockmw/httpmw#busy")
	assert.True(t, outer, "middleware further out sees that the chain is aborted")
}

// Nor does one that has ended while it waited: it is no success, and no panic
// for gin.Recovery to log.
func TestARequestThatEndsWhileItWaitsRunsNoHandler(t *testing.T) {
	t.Parallel()
	k, _ := webtest.Scripted(t)
	defer webtest.Hold(t, k, "account:7")()
	ctx, end := context.WithCancel(t.Context())
	var log bytes.Buffer
	h := route(
		gin.RecoveryWithWriter(&log),
		func(*gin.Context) { end() },
		ginmw.Middleware(k, accountLock),
		func(*gin.Context) { assert.Fail(t, "it ran without the lock") },
	)
	a := webtest.Do(h, httptest.NewRequestWithContext(ctx, http.MethodPost, path, http.NoBody))
	assert.Equal(t, http.StatusServiceUnavailable, a.StatusCode)
	assert.Empty(t, log.String())
}

// A handler that aborts the chain ends its work: those behind it do not run, the
// lock is free, and nothing panics.
func TestAnAbortedChainFreesTheLock(t *testing.T) {
	t.Parallel()
	k, store := webtest.Scripted(t)
	var log bytes.Buffer
	a := post(t, route(
		gin.RecoveryWithWriter(&log),
		ginmw.Middleware(k, accountLock),
		func(c *gin.Context) { c.AbortWithStatus(http.StatusForbidden) },
		func(*gin.Context) { assert.Fail(t, "it ran") },
	))
	assert.Equal(t, http.StatusForbidden, a.StatusCode)
	assert.Empty(t, log.String())
	assert.Empty(t, store.Owner("account:7"))
}

// A panic is answered as without the lock, which is free then.
func TestAPanicFreesTheLock(t *testing.T) {
	t.Parallel()
	k, store := webtest.Scripted(t)
	recovery := gin.CustomRecoveryWithWriter(io.Discard, func(c *gin.Context, _ any) {
		c.Header("Status-Was", strconv.Itoa(c.Writer.Status()))
		c.AbortWithStatus(http.StatusInternalServerError)
	})
	a := post(t, route(recovery, ginmw.Middleware(k, accountLock),
		func(*gin.Context) { panic("broken") }))
	assert.Equal(t, http.StatusInternalServerError, a.StatusCode)
	assert.Equal(t, "200", a.Header.Get("Status-Was"))
	assert.Empty(t, store.Owner("account:7"))
}

// A handler whose lock is lost returns without an answer, which is the
// middleware's then, or with a 5xx of its own.
func TestALostLock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts   []httpmw.Option
		answer func(*gin.Context)
		status int
		body   string
	}{
		"no answer, tracked": {[]httpmw.Option{lockmw.Strict()}, func(*gin.Context) {}, 503, "#lost"},
		"its own":            {nil, func(c *gin.Context) { c.AbortWithStatus(http.StatusBadGateway) }, 502, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			webtest.InBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				s.Default(script.Renew, script.Gone())
				a := post(t, route(ginmw.Middleware(k, accountLock, c.opts...), func(gc *gin.Context) {
					<-gc.Request.Context().Done()
					assert.ErrorIs(t, context.Cause(gc.Request.Context()), renewer.ErrLost)
					c.answer(gc)
				}))
				assert.Equal(t, c.status, a.StatusCode)
				assert.Contains(t, a.Text, c.body)
				assert.Equal(t, c.body == "", a.Text == "")
			})
		})
	}
}

// An answer that AbortLost breaks off is broken to the client behind
// gin.Recovery, too.
func TestAnAnswerIsBrokenOff(t *testing.T) {
	t.Parallel()
	for proto, edit := range webtest.Protocols {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			k, s := webtest.Scripted(t, quick)
			server := webtest.Serve(t, route(
				ginmw.Middleware(k, accountLock, lockmw.Strict()),
				func(c *gin.Context) {
					c.String(http.StatusOK, "do")
					c.Writer.Flush()
					s.Default(script.Renew, script.Gone())
					<-c.Request.Context().Done()
				},
			), edit, webtest.Quiet)
			a := webtest.Send(t, server, http.MethodPost, path, http.NoBody)
			assert.Equal(t, http.StatusOK, a.StatusCode)
			require.Error(t, a.Err, a.Text)
		})
	}
}

// Of an answer that middleware breaks off before it has begun, gin made a 200.
func TestAnAnswerThatHasNotBegunIsBrokenOff(t *testing.T) {
	t.Parallel()
	a := post(t, route(ginmw.FromHTTP(func(http.Handler) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	})))
	assert.Equal(t, http.StatusServiceUnavailable, a.StatusCode)
}

func TestMiddlewareNeedsAKeeperAndAKey(t *testing.T) {
	t.Parallel()
	k, _ := webtest.Scripted(t)
	assert.Panics(t, func() { ginmw.Middleware[string](k, nil) })
	assert.Panics(t, func() { ginmw.Middleware(nil, accountLock) })
}
