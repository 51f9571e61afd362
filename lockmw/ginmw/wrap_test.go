package ginmw_test

import (
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/webtest"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/ginmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// The middleware of net/http is made once, and sees all that handlers write.
func TestTheMiddlewareSeesTheAnswer(t *testing.T) {
	t.Parallel()
	made, status, bytes := 0, 0, 0
	server := webtest.Serve(t, route(
		ginmw.FromHTTP(func(next http.Handler) http.Handler {
			made++
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, "POST /accounts/:id/transfer", r.Pattern)
				next.ServeHTTP(&counted{w, &status, &bytes}, r)
			})
		}),
		func(c *gin.Context) {
			assert.False(t, c.Writer.Written())
			c.Status(http.StatusOK) // the last one counts
			c.Status(http.StatusAccepted)
			c.Writer.Flush()
			assert.True(t, c.Writer.Written())
			c.Status(http.StatusConflict) // too late
			assert.Equal(t, http.StatusAccepted, c.Writer.Status())
			_, _ = io.Copy(c.Writer, strings.NewReader("a"))
			_, _ = c.Writer.WriteString("bc")
			assert.Equal(t, 3, c.Writer.Size())
		},
	))
	for range 3 {
		a := webtest.Send(t, server, http.MethodPost, path, http.NoBody)
		assert.Equal(t, http.StatusAccepted, a.StatusCode)
		assert.Equal(t, "abc", a.Text)
	}
	assert.Equal(t, 1, made)
	assert.Equal(t, http.StatusAccepted, status)
	assert.Equal(t, 9, bytes)
}

// counted keeps the status, and counts the bytes of answers.
type counted struct {
	http.ResponseWriter

	status, bytes *int
}

func (c *counted) WriteHeader(status int) {
	*c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *counted) Write(data []byte) (int, error) {
	*c.bytes += len(data)
	return c.ResponseWriter.Write(data)
}

func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// A writer that keeps the answer back, as a recorder of it does, hears each
// status once, and handlers get what it returns.
func TestAWriterThatKeepsTheAnswerBack(t *testing.T) {
	t.Parallel()
	text := []byte("abc")
	for name, write := range map[string]func(gin.ResponseWriter) (int, error){
		"Write":       func(w gin.ResponseWriter) (int, error) { return w.Write(text) },
		"WriteString": func(w gin.ResponseWriter) (int, error) { return w.WriteString("abc") },
	} {
		kept := &keeping{ResponseRecorder: httptest.NewRecorder()}
		a := post(t, route(ginmw.FromHTTP(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { next.ServeHTTP(kept, r) })
		}), func(c *gin.Context) {
			c.Header("Location", "/transfers/1")
			c.Status(http.StatusCreated)
			n, err := write(c.Writer)
			assert.Equal(t, 2, n, name)
			assert.ErrorIs(t, err, io.ErrShortWrite, name)
			assert.Equal(t, 2, c.Writer.Size(), name)
			assert.NoError(t, http.NewResponseController(c.Writer).SetReadDeadline(time.Now()))
		}))
		assert.Equal(t, []int{http.StatusCreated}, kept.statuses, name)
		assert.Equal(t, "/transfers/1", kept.Header().Get("Location"), name)
		assert.True(t, kept.deadline, name)
		assert.Empty(t, a.Header, name)
	}
}

// keeping is a writer that has room for two bytes.
type keeping struct {
	*httptest.ResponseRecorder

	statuses []int
	deadline bool // is set
}

func (k *keeping) WriteHeader(status int) { k.statuses = append(k.statuses, status) }

func (k *keeping) Write([]byte) (int, error) { return 2, io.ErrShortWrite }

func (k *keeping) WriteString(string) (int, error) { return 2, io.ErrShortWrite }

func (k *keeping) SetReadDeadline(time.Time) error { k.deadline = true; return nil }

// A status without a body is an answer, which middleware further out can still
// give a body.
func TestAStatusWithoutABody(t *testing.T) {
	t.Parallel()
	status := 0
	wrapped := ginmw.FromHTTP(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(&counted{w, &status, new(int)}, r)
		})
	})
	refuse := func(c *gin.Context) { c.Status(http.StatusConflict) }
	a := post(t, route(wrapped, refuse))
	assert.Equal(t, http.StatusConflict, a.StatusCode)
	assert.Equal(t, http.StatusConflict, status)
	a = post(t, route(func(c *gin.Context) {
		c.Next()
		c.String(c.Writer.Status(), "why")
	}, wrapped, refuse))
	assert.Equal(t, http.StatusConflict, a.StatusCode)
	assert.Equal(t, "why", a.Text)
}

// httpmw's own key functions read gin's parameters.
func TestPathIntReadsGinsParameters(t *testing.T) {
	t.Parallel()
	account := httpmw.PathInt("account", "id")
	k, store := webtest.Scripted(t)
	for _, lock := range []gin.HandlerFunc{
		ginmw.FromHTTP(httpmw.Middleware(k, account)),
		ginmw.Middleware(k, func(c *gin.Context) lockmw.Set { return account(c.Request) }),
	} {
		server := webtest.Serve(t, route(lock, func(c *gin.Context) {
			c.Status(http.StatusNoContent)
		}))
		a := webtest.Send(t, server, http.MethodPost, "/accounts/007/transfer", http.NoBody)
		assert.Equal(t, http.StatusNoContent, a.StatusCode)
		a = webtest.Send(t, server, http.MethodPost, "/accounts/seven/transfer", http.NoBody)
		assert.Equal(t, http.StatusBadRequest, a.StatusCode)
	}
	assert.Equal(t, []string{"account:7", "account:7"}, webtest.Names(store))
}

// A request that is sent again gets gin's first answer, status and headers
// included, under a lock.
func TestIdempotent(t *testing.T) {
	t.Parallel()
	k := webtest.Keeper(t, memory.New())
	ran := 0
	server := webtest.Serve(t, route(
		ginmw.FromHTTP(idempotent.Middleware(k, idempotent.Config{
			Caller: func(*http.Request) string { return "alice" }, Scope: "bank",
		})),
		ginmw.Middleware(k, accountLock),
		func(c *gin.Context) {
			ran++
			assert.True(t, lockmw.Held(c.Request.Context(), "account:7"))
			c.Header("Location", "/transfers/1")
			c.JSON(http.StatusCreated, gin.H{"n": ran})
			assert.True(t, c.Writer.Written())
		},
	))
	for range 2 {
		a := webtest.Send(t, server, http.MethodPost, path, http.NoBody, "Idempotency-Key", `"k"`)
		assert.Equal(t, http.StatusCreated, a.StatusCode)
		assert.JSONEq(t, `{"n": 1}`, a.Text)
		assert.Equal(t, "/transfers/1", a.Header.Get("Location"))
	}
	assert.Equal(t, 1, ran)
}

// net/http removes the files of a form that a handler has had parsed.
func TestTheFilesOfAFormAreRemoved(t *testing.T) {
	t.Parallel()
	k, _ := webtest.Scripted(t)
	var name string
	server := webtest.Serve(t, route(ginmw.Middleware(k, accountLock), func(c *gin.Context) {
		require.NoError(t, c.Request.ParseMultipartForm(1))
		file, err := c.Request.MultipartForm.File["f"][0].Open()
		require.NoError(t, err)
		name = file.(*os.File).Name()
		require.NoError(t, file.Close())
	}))
	var form strings.Builder
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("f", "f")
	require.NoError(t, err)
	_, err = io.WriteString(part, strings.Repeat("x", 1<<10))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	webtest.Send(t, server, http.MethodPost, path, strings.NewReader(form.String()),
		"Content-Type", w.FormDataContentType())
	require.NotEmpty(t, name)
	server.Close() // waits for the end of the request
	assert.NoFileExists(t, name)
}

// A handler can take the connection over, which AbortLost hears of: when the
// lock is lost it does not write to it.
func TestHijack(t *testing.T) {
	t.Parallel()
	k, s := webtest.Scripted(t, quick)
	over := make(chan struct{})
	server := webtest.Serve(t, route(
		func(c *gin.Context) {
			defer close(over) // for this no server waits
			c.Next()
		},
		ginmw.Middleware(k, accountLock, lockmw.Strict()),
		func(c *gin.Context) {
			conn, _, err := c.Writer.Hijack()
			if assert.NoError(t, err) {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone")
				_ = conn.Close()
			}
			s.Default(script.Renew, script.Gone())
			<-c.Request.Context().Done()
		}), webtest.Uncomplaining(t))
	a := webtest.Send(t, server, http.MethodPost, path, http.NoBody)
	assert.Equal(t, "done", a.Text)
	<-over
}
