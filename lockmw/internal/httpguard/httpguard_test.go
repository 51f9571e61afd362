package httpguard_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func request(t *testing.T, body io.Reader) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
}

// A refusal is marked for a recorder only, and the recorder takes the mark off.
// What looks like a mark, such as that of another process, is none.
func TestMarks(t *testing.T) {
	t.Parallel()
	r, h := request(t, http.NoBody), make(http.Header)
	httpguard.MarkRefused(h, r)
	assert.Empty(t, h, "its answer is not recorded")
	r = r.WithContext(httpguard.Recorded(r.Context()))
	httpguard.MarkRefused(h, r)
	assert.True(t, httpguard.TakeMark(h))
	assert.Empty(t, h)
	h.Set(httpguard.RefusedHeader, "true")
	assert.False(t, httpguard.TakeMark(h))
	assert.Empty(t, h, "it is not for clients")
}

// A body that has been read can be read again, and is closed as the one that it
// was read from.
func TestReadBodies(t *testing.T) {
	t.Parallel()
	from := &closing{Reader: strings.NewReader("pen")}
	r := request(t, from)
	r.ContentLength = -1
	data, restore, err := httpguard.ReadBody(httptest.NewRecorder(), r, 3)
	require.NoError(t, err)
	assert.Equal(t, "pen", string(data))
	again, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	assert.Equal(t, "pen", string(again))
	require.NoError(t, r.Body.Close())
	assert.True(t, from.closed)
	restore()
	assert.Equal(t, from, r.Body)
	for _, none := range []io.ReadCloser{nil, http.NoBody} {
		r.Body = none
		_, _, err = httpguard.ReadBody(httptest.NewRecorder(), r, 3)
		require.NoError(t, err)
		assert.Equal(t, none, r.Body)
	}
}

type closing struct {
	io.Reader

	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

// A body above the limit is an error, whether or not its length was
// given. One whose length is above it is not begun.
func TestBodiesAboveTheLimit(t *testing.T) {
	t.Parallel()
	for _, length := range []int64{4, -1} {
		text := strings.NewReader("pens")
		r := request(t, io.NopCloser(text))
		r.ContentLength = length
		_, _, err := httpguard.ReadBody(httptest.NewRecorder(), r, 3)
		require.ErrorIs(t, err, httpguard.ErrBody)
		var large *http.MaxBytesError
		require.ErrorAs(t, err, &large)
		assert.Equal(t, length > 0, text.Len() == 4)
	}
}

// What ended the request is in the error, beside the standard library's.
func TestEndedRequests(t *testing.T) {
	t.Parallel()
	why := errors.New("a rule of ours")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	r := request(t, http.NoBody).WithContext(ctx)
	for _, err := range []error{httpguard.Ended(r), httpguard.CheckName(r, names.Invalid(io.EOF))} {
		require.ErrorIs(t, err, why)
		require.ErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, io.EOF)
	}
}

func TestErrorsOfKeyFunctions(t *testing.T) {
	t.Parallel()
	r := request(t, http.NoBody)
	check := func(err error) error { return httpguard.CheckName(r, names.Invalid(err)) }
	assert.Equal(t, httpguard.ErrKey, check(httpguard.ErrKey))
	assert.Equal(t, renewer.ErrConfig, check(renewer.ErrConfig))
	err := check(io.EOF)
	require.ErrorIs(t, err, httpguard.ErrKey)
	require.ErrorIs(t, err, io.EOF)
}

// What net/http and outer middleware look for in their request is there, also
// after a panic.
func TestTheRequestGetsBackWhatItsHandlerFound(t *testing.T) {
	t.Parallel()
	r := request(t, http.NoBody)
	type key struct{}
	assert.Panics(t, func() {
		httpguard.Serve(context.WithValue(r.Context(), key{}, 1), httptest.NewRecorder(), r,
			func(_ http.ResponseWriter, inner *http.Request) {
				assert.Equal(t, 1, inner.Context().Value(key{}))
				inner.Pattern, inner.MultipartForm = "POST /", new(multipart.Form)
				panic(http.ErrAbortHandler)
			})
	})
	assert.Equal(t, "POST /", r.Pattern)
	assert.NotNil(t, r.MultipartForm, "net/http removes its files")
	assert.Nil(t, r.Context().Value(key{}))
}

// Each kind of fault is told once.
func TestFaultsAreToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := new(counter)
		k, err := renewer.New(script.New(),
			renewer.Config{TTL: renewer.DefaultTTL, Observer: o, Log: renewer.Silent})
		require.NoError(t, err)
		defer func() { require.NoError(t, k.Shutdown(t.Context())) }()
		f := httpguard.NewFaults(k)
		r := request(t, http.NoBody)
		r = r.WithContext(context.WithValue(r.Context(), http.ServerContextKey,
			&http.Server{WriteTimeout: time.Second}))
		for range 2 {
			f.Misuse(r, io.EOF) // is none
			f.CheckTimeout(r, 0)
			f.CheckTimeout(r, time.Second-1)
			f.CheckTimeout(within(t, r, 900*time.Millisecond-1), time.Second)
		}
		assert.Zero(t, o.n)
		for range 2 {
			f.Misuse(r, renewer.ErrConfig)
			f.CheckTimeout(within(t, r, 900*time.Millisecond), time.Second)
		}
		assert.Equal(t, 2, o.n)
	})
}

// Also to who has no Observer.
func TestFaultsAreToldWithoutAnObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		k, err := renewer.New(script.New(),
			renewer.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		f, r := httpguard.NewFaults(k), request(t, http.NoBody)
		f.Misuse(r, renewer.ErrConfig)
		f.Misuse(r, httpguard.ErrNoName)
		require.NoError(t, k.Shutdown(t.Context()))
		require.Contains(t, log.String(), `msg="locks are set up wrongly" doing="serve HTTP"`)
		require.Contains(t, log.String(), `msg="trouble with locks" doing="serve HTTP"`)
	})
}

// A function that returns no usable name is told of in a while again: a client
// may have been the first to bring it about.
func TestNamesThatAreNoneAreToldOfNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := new(counter)
		k, err := renewer.New(script.New(),
			renewer.Config{TTL: renewer.DefaultTTL, Observer: o, Log: renewer.Silent})
		require.NoError(t, err)
		defer func() { require.NoError(t, k.Shutdown(t.Context())) }()
		f, r := httpguard.NewFaults(k), request(t, http.NoBody)
		long := strings.Repeat("x", store.MaxName+1)
		check := func(all ...string) error {
			return httpguard.CheckName(r, names.Set(lockmw.All(all...)))
		}
		for range 2 {
			f.Misuse(r, check("x"))
			f.Misuse(r, check(long[1:], "x"))
		}
		assert.Zero(t, o.n)
		for n := range 3 {
			f.Misuse(r, check(long))
			f.Misuse(r, check(""))
			f.Misuse(r, check("x", long))
			f.Misuse(r, check("x", ""))
			f.Misuse(r, httpguard.ErrNoCaller)
			assert.Equal(t, n+1, o.n)
			<-time.After(10 * time.Minute)
		}
	})
}

// within is r inside an http.TimeoutHandler.
func within(t *testing.T, r *http.Request, d time.Duration) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), d)
	t.Cleanup(cancel)
	return r.WithContext(ctx)
}

type counter struct {
	renewer.NopObserver

	n int
}

func (c *counter) Fault(renewer.Fault) { c.n++ }
