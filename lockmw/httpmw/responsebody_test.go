package httpmw_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestLockLostWhileTheBodyIsRead(t *testing.T) {
	t.Parallel()
	for proto, edit := range protocols {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			k, store := scripted(t, quick)
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				half(w)
				<-r.Context().Done()
			}), edit)
			res, err := call(t, httpmw.Transport(s.Client().Transport, k, byName("a")), s.URL,
				http.NoBody)
			require.NoError(t, err)
			body := make([]byte, 2)
			_, err = io.ReadFull(res.Body, body)
			require.NoError(t, err)
			assert.Equal(t, "do", string(body))
			store.Default(script.Renew, script.Gone())
			_, err = io.ReadAll(res.Body)
			require.ErrorIs(t, err, renewer.ErrLost)
			require.NoError(t, res.Body.Close())
		})
	}
}

// The whole body was there before the loss was found: it stands.
func TestBodyReadBeforeTheLossStands(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	store.Script(script.Release, script.Gone())
	s := serve(t, http.HandlerFunc(ok))
	res, err := call(t, httpmw.Transport(nil, k, byName("a")), s.URL, http.NoBody)
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Equal(t, "done", string(body))
	require.NoError(t, res.Body.Close())
	http.DefaultClient.CloseIdleConnections()
}

// failing is a body whose reading and closing fail.
type failing struct{ err error }

func (b failing) Read([]byte) (int, error) { return 0, b.err }
func (b failing) Close() error             { return b.err }

func TestErrorsOfTheBodyPass(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		rt := httpmw.Transport(tripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{Body: failing{errDown}}, nil
		}), k, byName("a"))
		res, err := rt.RoundTrip(get(t, "/"))
		require.NoError(t, err)
		_, err = res.Body.Read(nil)
		require.Equal(t, errDown, err)
		require.Equal(t, errDown, res.Body.Close())

		res, err = rt.RoundTrip(get(t, "/"))
		require.NoError(t, err)
		s.Script(script.Renew, script.Gone())
		waitFor(renewer.DefaultTTL)
		_, err = res.Body.Read(nil)
		require.ErrorIs(t, err, errDown)
		require.ErrorIs(t, err, renewer.ErrLost)
		err = res.Body.Close()
		require.ErrorIs(t, err, errDown)
		require.ErrorIs(t, err, renewer.ErrLost)
	})
}

// told is a body that says what its call's context does.
type told struct {
	*watched

	ctx context.Context
}

func (b told) Read(p []byte) (int, error) {
	if b.ctx.Err() == nil {
		return b.watched.Read(p)
	}
	return 0, context.Cause(b.ctx)
}

// A loss is told once, and an end is an end.
func TestEndsOfABodyAfterALoss(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		for _, knows := range []bool{true, false} {
			rt := httpmw.Transport(tripper(func(r *http.Request) (*http.Response, error) {
				body := &watched{Reader: strings.NewReader("")}
				if knows {
					return &http.Response{Body: told{body, r.Context()}}, nil
				}
				return &http.Response{Body: body}, nil
			}), k, byName("a"))
			res, err := rt.RoundTrip(get(t, "/"))
			require.NoError(t, err)
			s.Script(script.Renew, script.Gone())
			waitFor(renewer.DefaultTTL)
			_, err = res.Body.Read(make([]byte, 1))
			if knows {
				require.ErrorIs(t, err, renewer.ErrLost)
				require.Equal(t, 1, strings.Count(err.Error(), "lease on"))
			} else {
				require.Equal(t, io.EOF, err)
			}
			require.NoError(t, res.Body.Close())
		}
	})
}

// upgrade changes a connection over to a protocol that echoes.
func upgrade(w http.ResponseWriter, _ *http.Request) {
	conn, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn,
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	_, _ = io.Copy(conn, buffered)
}

func TestConnectionChangedOverIsStillWritable(t *testing.T) {
	t.Parallel()
	k, store := scripted(t, quick)
	s := serve(t, http.HandlerFunc(upgrade))
	rt := httpmw.Transport(nil, k, byName("a"))
	dial := func() io.ReadWriteCloser {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody)
		require.NoError(t, err)
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		res, err := rt.RoundTrip(req) //nolint:bodyclose // the connection is closed
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
		conn, is := res.Body.(io.ReadWriteCloser)
		require.True(t, is)
		_, err = io.WriteString(conn, "hello")
		require.NoError(t, err)
		echo := make([]byte, 5)
		_, err = io.ReadFull(conn, echo)
		require.NoError(t, err)
		assert.Equal(t, "hello", string(echo))
		return conn
	}
	conn := dial()
	half, is := conn.(interface{ CloseWrite() error })
	require.True(t, is)
	require.NoError(t, half.CloseWrite())
	_, err := io.ReadAll(conn)
	require.NoError(t, err, "the far side has seen the end")
	assert.NotEmpty(t, store.Owner("a"))
	require.NoError(t, conn.Close())
	assert.Empty(t, store.Owner("a"))

	conn = dial()
	store.Script(script.Renew, script.Gone())
	_, err = io.ReadAll(conn)
	require.ErrorIs(t, err, renewer.ErrLost, "net/http does not look at the context any more")
	_ = conn.Close()
}

// duplex is a connection changed over by a base without half-closing.
type duplex struct {
	watched
	strings.Builder
}

// The caller's context has no say in a connection that has changed over, as without us; a loss has.
func TestConnectionChangedOverOutlivesTheCaller(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		conn := &duplex{}
		rt := httpmw.Transport(tripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{Body: conn}, nil
		}), k, byName("a"))
		ctx, cancel := context.WithCancel(t.Context())
		res, err := rt.RoundTrip(get(t, "/").WithContext(ctx))
		require.NoError(t, err)
		cancel()
		synctest.Wait()
		assert.False(t, conn.closed)
		require.NoError(t, res.Body.Close())
		assert.True(t, conn.closed)

		conn = &duplex{}
		res, err = rt.RoundTrip(get(t, "/"))
		require.NoError(t, err)
		s.Script(script.Renew, script.Gone())
		waitFor(renewer.DefaultTTL)
		synctest.Wait()
		assert.True(t, conn.closed)
		require.NoError(t, res.Body.Close())
	})
}

func TestBodyHasNoMoreMethodsThanWithoutUs(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	for _, b := range []io.ReadCloser{
		&watched{Reader: strings.NewReader("")},
		&duplex{watched: watched{Reader: strings.NewReader("")}},
	} {
		rt := httpmw.Transport(tripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{Body: b}, nil
		}), k, byName("a"))
		res, err := rt.RoundTrip(get(t, "/"))
		require.NoError(t, err)
		assert.Equal(t, is[io.Writer](b), is[io.Writer](res.Body))
		assert.False(t, is[interface{ CloseWrite() error }](res.Body))
		require.NoError(t, res.Body.Close())
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
