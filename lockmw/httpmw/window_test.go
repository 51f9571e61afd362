package httpmw_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/webtest"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
)

// By HTTP/2, requests that waited for a lock kept the window of their
// connection filled by their unread bodies. The lock's holder could not read
// its own, until they gave up.
func TestUploadsThatWaitDoNotStopTheHolders(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	has := make(chan struct{}, 1)
	lock := httpmw.Middleware(k, byName("a"), httpmw.StreamBody(), lockmw.Wait(time.Hour))
	s := serve(t, lock(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		has <- struct{}{}
		_, err := io.Copy(w, r.Body)
		assert.NoError(t, err)
	})), protocols["HTTP/2"], quiet)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	upload := func(method string, body io.Reader) webtest.Answer {
		r, err := http.NewRequestWithContext(ctx, method, s.URL, body)
		if err != nil {
			return webtest.Answer{Err: err}
		}
		res, err := s.Client().Do(r)
		if err != nil {
			return webtest.Answer{Err: err}
		}
		defer func() { _ = res.Body.Close() }()
		return read(res)
	}
	large := strings.Repeat("0123456789abcdef", httpguard.DefaultMaxBody/12)
	body, holder := io.Pipe()
	held := make(chan webtest.Answer, 1)
	go func() { held <- upload(http.MethodPost, body) }()
	<-has
	for range 2 { // one after the other, while the lock is held
		for _, body := range []io.Reader{strings.NewReader(large), unsized{strings.NewReader("a")}} {
			a := upload(http.MethodPost, body)
			require.NoError(t, a.Err)
			requireProblem(t, a, http.StatusServiceUnavailable, httpguard.TypeBusy)
		}
	}
	empty := make(chan webtest.Answer, 1)
	go func() { empty <- upload(http.MethodGet, nil) }()
	_, err := io.WriteString(holder, large)
	require.NoError(t, err)
	require.NoError(t, holder.Close())
	a := <-held
	require.NoError(t, a.Err)
	require.Len(t, a.Text, len(large))
	a = <-empty
	require.NoError(t, a.Err)
	assert.Equal(t, http.StatusOK, a.StatusCode, "without a body it waits")
}
